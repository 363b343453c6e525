"""`manage.py replay_draws`, and the settings that selection obeys: role order, context, J_max.

See docs/algorithms.md §7.
"""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from records import DONE, Made, make_run, record, record_conversation, scored

from agents.actions.finish_execution import finish_execution
from agents.core.outcome import Status, Verdict
from agents.core.roles import Role
from agents.models import Call, Draw, Execution, Group, SelectionRecord, Trajectory
from agents.replay import replay_draws
from trainers.actions.admit_group import admit_group

pytestmark = pytest.mark.django_db


def admitted(made: Made, **terms: int) -> list[Execution]:
    """A group of two with a main conversation, six sub-agents, a summary and an auxiliary call each, in a batch."""
    group: Group = made.group(2)
    for execution in group.executions.order_by("index"):
        record_conversation(execution)
        for number in range(3, 9):
            record(execution, number, [60 + number, 61], [number] * number, role=Role.SUB_AGENT)
        record(execution, 9, [90, 91], [9, 9], role=Role.MAIN_SUMMARY)
        record(execution, 10, [95], [1], role=Role.AUXILIARY)
        finish_execution(execution.pk, 1, scored(float(execution.index)), DONE)
    admit_group(made.batch().pk, group.pk, **terms)
    return list(group.executions.order_by("index"))


def replay(*arguments: Any) -> tuple[int, str]:
    """Exit code and output of the command."""
    out = StringIO()
    try:
        call_command("replay_draws", *arguments, stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def roles_of(execution: Execution) -> list[str]:
    return list(execution.draws.order_by("number").values_list("role", flat=True))


def test_the_draws_of_an_execution_come_out_again_under_the_bounds_that_they_had() -> None:
    execution = admitted(make_run(), j_max=4)[0]
    code, text = replay(str(execution.pk))
    assert code == 0
    assert text.splitlines()[0].startswith("draw 1: main, 1 candidates")
    assert "equal: 4 draws come out again (J_max 4, context_tokens 1024, seed select/1/0/0/1)" in text
    code, text = replay(str(execution.pk), "--json")
    found = json.loads(text)
    assert (code, found["equal"], found["first_difference"], len(found["draws"])) == (0, True, None, 4)
    assert found["bounds"]["order"] == ["main", "main-summary", "sub-agent", "sub-agent-summary"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda e: Draw.objects.filter(execution=e, number=1).update(random=0.5), "draws[1].random"),
        (lambda e: Draw.objects.filter(execution=e, number=2).update(chosen_call=8), "draws[2].chosen_call"),
        (lambda e: Draw.objects.filter(execution=e, number=3).delete(), "draws[3]"),
        (lambda e: Trajectory.objects.filter(execution=e, number=0).update(targets=[]), "trajectories[0].targets"),
        (lambda e: Execution.objects.filter(pk=e.pk).update(exclusions=[]), "exclusions[0]"),
        (lambda e: SelectionRecord.objects.filter(execution=e).update(j_max=2), "draws[2]"),
        (lambda e: SelectionRecord.objects.filter(execution=e).update(seed="mine"), "seed"),
        (lambda e: Call.objects.filter(execution=e, number=5).update(role="auxiliary"), "draws"),
    ],
)  # fmt: skip
def test_whatever_was_changed_afterwards_is_found_and_named(change: Any, where: str) -> None:
    execution = admitted(make_run(), j_max=4)[0]
    change(execution)
    code, text = replay(str(execution.pk))
    assert code == 1
    assert f"DIFFERS at {where}" in text
    code, text = replay(str(execution.pk), "--json")
    assert (code, json.loads(text)["equal"]) == (1, False)
    assert json.loads(text)["first_difference"]["where"].startswith(where)


def test_a_whole_run_is_replayed_and_what_differs_is_listed() -> None:
    made = make_run()
    first, second = admitted(made)
    assert replay("--run", str(made.run.pk)) == (0, "2 executions, 10 draws: 0 executions differ\n")
    Draw.objects.filter(execution=second, number=0).update(random=0.5)
    code, text = replay("--run", str(made.run.pk))
    assert (code, f"execution {second.pk} DIFFERS at draws[0].random" in text) == (1, True)
    assert f"execution {first.pk} " not in text
    code, text = replay("--run", str(made.run.pk), "--json")
    found = json.loads(text)
    assert (code, found["equal"], [row["execution"] for row in found["differing"]]) == (1, False, [second.pk])


def test_what_cannot_be_replayed_is_said_with_the_reason() -> None:
    waiting = make_run().group(1).executions.get()
    with pytest.raises(CommandError, match="it is running, and selection draws when its group is admitted"):
        replay(str(waiting.pk))
    with pytest.raises(CommandError, match="there is no execution 999"):
        replay("999")
    with pytest.raises(CommandError, match="name an execution, or a run"):
        replay()


def test_a_changed_role_order_is_obeyed_and_a_class_left_out_is_not_trained() -> None:
    usual = admitted(make_run())[0]
    assert roles_of(usual)[:2] == ["main", "main-summary"]
    turned = admitted(make_run(role_order=["sub-agent", "main"]))[0]
    assert roles_of(turned) == ["sub-agent"] * 5
    reasons = dict(turned.exclusions)
    assert reasons[9] == "class_not_trained"
    assert reasons[10] == "auxiliary"
    assert reasons[2] == "over_j_max"
    assert turned.selection.role_order == ["sub-agent", "main"]
    assert replay_draws(turned).agree


def test_leaves_beyond_the_training_context_are_not_drawn_and_say_so() -> None:
    short = admitted(make_run(context_tokens=20))[0]
    assert "main" not in roles_of(short)
    reasons = dict(short.exclusions)
    assert {reasons[call] for call in (0, 1, 2)} == {"too_long"}
    assert short.selection.context_tokens == 20
    assert replay_draws(short).agree


def test_a_path_that_no_longer_fits_leaves_the_one_that_it_extended_to_be_drawn() -> None:
    execution = admitted(make_run(context_tokens=30))[0]
    drawn = list(execution.trajectories.order_by("number").values_list("leaf_call", "num_tokens"))
    assert drawn[0] == (1, 28)
    assert dict(execution.exclusions)[2] == "too_long"
    assert dict(execution.exclusions)[0] == "extended"


@pytest.mark.parametrize("j_max", [1, 3, 50])
def test_no_more_trajectories_than_j_max_are_drawn(j_max: int) -> None:
    execution = admitted(make_run(j_max=j_max))[0]
    assert execution.draws.count() == min(j_max, 8)
    left_out = [why for _, why in execution.exclusions if why == "over_j_max"]
    assert len(left_out) == 8 - execution.draws.count()
    assert execution.selection.num_drawn == execution.draws.count()
    assert execution.selection.num_leaves == 8


def test_an_execution_without_work_has_nothing_to_draw_and_replays_equal() -> None:
    made = make_run()
    group = made.group(2)
    for execution in group.executions.order_by("index"):
        record_conversation(execution)
        verdict = scored(1.0) if execution.index else Verdict(Status.NO_WORK)
        finish_execution(execution.pk, 1, verdict, DONE)
    admit_group(made.batch().pk, group.pk)
    idle = group.executions.get(index=0)
    assert (idle.selection.num_leaves, idle.selection.cost_every_call_tokens) == (0, 0)
    assert replay(str(idle.pk))[0] == 0
