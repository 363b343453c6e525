"""The stored snapshots prove the stored decisions, and a row that was changed by hand is found."""

import pytest
from django.core.management import CommandError, call_command

from agents.models import Run
from scheduler.core.decide import decide
from scheduler.core.policies import policy_of
from scheduler.core.recorder import Recorder
from scheduler.enact import enact
from scheduler.models import Cell, Decision
from scheduler.observe import observe
from tests.scheduler.standin import make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def decided_run() -> Run:
    """One evaluation of `decide` on fresh rows: a burst is dispatched, two leaves are refused."""
    run = make_run(state=Run.State.RUNNING, cells=2, eval_every_steps=0)
    for index in range(2):
        Cell.objects.create(run=run, index=index, is_core=index == 0, role="rollout", weight_version=0)
    seen = observe(run.pk)
    assert seen is not None
    decisions = decide(seen.snapshot, policy_of("elastic"), seen.snapshot.taken_at_s)
    assert enact(run, seen, decisions, Recorder().worth_storing(decisions, seen.snapshot.taken_at_s)) == 1
    return run


def test_a_run_replays(decided_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("replay_decisions", decided_run.pk)
    assert capsys.readouterr().out == "1 evaluations, 3 decisions: all decided the same again\n"


def test_a_decision_that_was_changed_is_found(decided_run: Run) -> None:
    Decision.objects.filter(run=decided_run, kind="dispatch_burst").update(reason="because")
    with pytest.raises(CommandError, match="differ"):
        call_command("replay_decisions", decided_run.pk)


def test_decisions_of_other_rules_are_counted_and_not_compared(
    decided_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Decision.objects.get(run=decided_run, snapshot__isnull=False)
    first.snapshot["rules"] = "of another day"
    first.save()
    call_command("replay_decisions", decided_run.pk)
    assert "(1 evaluations by another version of the rules not compared)" in capsys.readouterr().out


def test_the_first_decision_of_an_evaluation_carries_the_snapshot(decided_run: Run) -> None:
    rows = list(Decision.objects.filter(run=decided_run).order_by("number"))
    assert [row.snapshot is not None for row in rows] == [True, False, False]
    assert [row.evaluation_number for row in rows] == [1, 1, 1]
