"""The JSON object of ONCE=1, the run that `make up` picks, and its progress line: all from the database."""

import json
import uuid
from datetime import timedelta
from io import StringIO

import pytest
from django.utils import timezone

from agents.models import Execution, Group, Project, Run, Task, TaskSet
from gyreweb.supervisor import follow, progress
from gyreweb.supervisor.accounts import create_first_admin
from gyreweb.supervisor.console import Console
from gyreweb.supervisor.errors import CannotStart
from gyreweb.supervisor.runs import run_to_end, run_to_show
from gyreweb.supervisor.summary import summarize
from scheduler.models import Cell, Evaluation, RoleChange
from trainers.models import Batch, HandIn, MicroStep

pytestmark = pytest.mark.django_db


def make_run(**fields: object) -> Run:
    project, _ = Project.objects.get_or_create(slug="p", defaults={"name": "P"})
    task_set, _ = TaskSet.objects.get_or_create(name="t", digest="d", defaults={"path": "/tmp/t"})
    values = {"name": "r", "preset": "quickstart", "config": {"steps": 20}, "seed": 1, "policy_kind": "elastic"}
    return Run.objects.create(project=project, task_set=task_set, **values | fields)


def add_group(run: Run, kind: str, number: int, outcomes: list[str], **fields: object) -> None:
    task, _ = Task.objects.get_or_create(
        task_set=run.task_set, name="one", defaults={"path": "/tmp/t/one", "digest": "d", "config": {}}
    )
    group = Group.objects.create(run=run, task=task, kind=kind, number=number)
    for index, outcome in enumerate(outcomes):
        reward = None if outcome == "unresolved" else float(outcome == "complete")
        Execution.objects.create(
            run=run, group=group, index=index, state="finished", outcome=outcome, reward=reward, **fields
        )


def add_cells(run: Run, roles: list[str]) -> list[Cell]:
    return [
        Cell.objects.create(run=run, index=index, is_core=index == 0, role=role) for index, role in enumerate(roles)
    ]


def test_the_summary_counts_what_the_run_did() -> None:
    now = timezone.now()
    run = make_run(
        version=2, seed=7, state="finished", started_at=now - timedelta(seconds=90.5), finished_at=now,
        dispatched=4, launched=4, finished=4,
    )  # fmt: skip
    add_group(run, "training", 0, ["complete", "partial"], num_false_forks=0)
    add_group(run, "training", 1, ["complete", "unresolved"], num_false_forks=1)
    add_group(run, "evaluation", 0, ["complete", "unresolved"])
    core, satellite = add_cells(run, ["training", "rollout"])
    for cell, states in ((core, ["finished", "failed"]), (satellite, ["finished", "started"])):
        for state in states:
            RoleChange.objects.create(cell=cell, epoch=1, from_role="rollout", to_role="training", state=state)
    for number, (version, state, mean) in enumerate(
        [(0, "finished", 0.45), (2, "finished", 0.81), (1, "finished", 0.6), (3, "running", None)]
    ):
        Evaluation.objects.create(run=run, number=number, version=version, state=state, num_tasks=64, reward_mean=mean)
    stepped = Batch.objects.create(run=run, number=1, burst=0, version=0, state="stepped")
    unfinished = Batch.objects.create(run=run, number=2, burst=0, version=1, state="open")
    for batch, cell_index, count in ((stepped, 0, 3), (stepped, 1, 2), (unfinished, 1, 4)):
        hand_in = HandIn.objects.create(
            batch=batch, hand_in_id=uuid.uuid4(), cell_index=cell_index, epoch=1, num_micro_steps=count
        )
        for number in range(count):
            MicroStep.objects.create(
                batch=batch, number=10 * cell_index + number, num_tokens=1, num_targets=1, num_trajectories=1,
                cell_index=cell_index, epoch=1, hand_in=hand_in, counted_at=now,
            )  # fmt: skip
    assert json.loads(json.dumps(summarize(run.pk).as_json())) == {
        "run": run.pk,
        "seed": 7,
        "steps": 2,
        "eval_first": 0.45,
        "eval_last": 0.81,
        "wall_s": 90.5,
        "switches": 2,
        "executions": 4,
        "unresolved": 1,
        "false_forks": 2,
        "micro_steps": {"core": 3, "satellite": 2},
    }


def test_a_run_without_anything_yet_has_a_summary_too() -> None:
    summary = summarize(make_run().pk)
    assert (summary.eval_first, summary.eval_last, summary.steps, summary.executions) == (None, None, 0, 0)


def test_an_unfinished_run_goes_on_and_a_finished_one_is_never_reused() -> None:
    make_run(state="finished")
    unfinished = make_run(state="running")
    shown = run_to_show("quickstart", None, asked=False, notice=print)
    assert shown is not None
    assert shown.pk == run_to_end("quickstart", 1, print).pk == unfinished.pk


def test_the_very_first_start_trains_and_a_later_one_only_when_it_is_asked_to() -> None:
    first = run_to_show("quickstart", None, asked=False, notice=print)
    assert first is not None
    assert (first.preset, first.state) == ("quickstart", "queued")
    Run.objects.update(state="finished")
    said: list[str] = []
    assert run_to_show("quickstart", None, asked=False, notice=said.append) is None
    assert "make up PRESET=quickstart" in said[0]
    by_seed = run_to_show("quickstart", 7, asked=True, notice=print)
    assert by_seed is not None
    assert (by_seed.preset, by_seed.seed) == ("quickstart", 7)
    Run.objects.update(state="finished")
    by_preset = run_to_show("quickstart-shuffled", None, asked=True, notice=print)
    assert by_preset is not None
    assert by_preset.preset == "quickstart-shuffled"


def test_without_a_run_to_show_the_next_one_that_is_launched_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "EVERY_S", 0.0)
    follower = follow.Follower(None, Console(StringIO()))
    follower.refresh()
    assert follower.ended
    make_run(state="running")
    follower.refresh()
    assert not follower.ended


def test_once_does_not_take_the_run_of_another_seed_or_preset() -> None:
    make_run(state="running", seed=2)
    make_run(state="running", preset="quickstart-shuffled")
    launched = run_to_end("quickstart", 1, print)
    assert (launched.preset, launched.seed, launched.state) == ("quickstart", 1, "queued")


def test_once_resumes_a_paused_run() -> None:
    paused = make_run(state="paused", state_reason="the disk was full")
    assert run_to_end("quickstart", 1, print).pk == paused.pk
    paused.refresh_from_db()
    assert paused.state == "starting"


def test_an_unknown_preset_is_refused_with_the_known_ones_and_nothing_is_launched() -> None:
    with pytest.raises(CannotStart, match=r"'nonsense' is unknown; known presets: .*quickstart"):
        run_to_end("nonsense", None, print)
    assert not Run.objects.exists()


def test_the_progress_line_has_step_pass_rate_waterlevel_and_roles() -> None:
    run = make_run(state="running", version=3, dispatched=10, launched=6, finished=4)
    add_group(run, "training", 0, ["complete", "partial", "unresolved"])
    add_cells(run, ["training", "rollout"])
    line, _ = progress.line(run)
    assert line == f"run {run.pk} running · step 3/20 · pass rate 50% · waterlevel 6 · core training, cell 1 rollout"


def test_the_first_admin_is_made_once_and_only_its_hash_is_kept() -> None:
    from django.contrib.auth import get_user_model

    password = create_first_admin()
    assert password is not None
    assert get_user_model().objects.get(username="admin").check_password(password)
    assert create_first_admin() is None
