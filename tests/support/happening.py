"""Test support: what happens to a run, one kind of event after another, with the rows that the actions would write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.utils import timezone

from agents import events
from agents.events import EventKind as E
from agents.models import Execution, Group, Run
from scheduler.models import Cell, Decision, Override, RoleChange
from tests.support.demo_run import demo_override
from trainers.models import Batch

STATES = {
    E.RUN_CREATED: "queued", E.RUN_STARTED: "running", E.RUN_PAUSED: "paused", E.RUN_RESUMED: "starting",
    E.RUN_CONTINUED: "running", E.RUN_FINISHED: "finished", E.RUN_STOPPED: "stopped",
}  # fmt: skip
ENDS = (E.RUN_FINISHED, E.RUN_STOPPED)
CELL = 1


def happen(run: Run, kind: E, ago_s: float = 0.0) -> None:
    """One event, and the change of rows that comes with it. `ago_s`: the rows say that it was so long ago."""
    run = Run.objects.get(pk=run.pk)
    at = timezone.now() - timedelta(seconds=ago_s)
    payload: dict[str, object] = {}
    if kind in STATES:
        run.state, run.state_reason = STATES[kind], "somebody said why"
        run.finished_at = at if kind in ENDS else None
    elif kind in (E.ALARM_RAISED, E.ALARM_CLEARED):
        payload = {"code": "void_groups", "message": "too many void groups"}
    elif kind in CHANGES:
        CHANGES[kind](run, at)
    run.save()
    Cell.objects.filter(run=run).update(heartbeat_at=timezone.now())  # a test that takes long raises no alarm
    events.record(run.pk, kind, payload)


def _group_dispatched(run: Run, at: datetime) -> None:
    newest = Group.objects.filter(run=run, kind="training").order_by("-number").first()
    assert newest is not None
    group = Group.objects.create(run=run, task=newest.task, number=newest.number + 1, burst=newest.burst)
    Group.objects.filter(pk=group.pk).update(created_at=at)
    Execution.objects.bulk_create(Execution(run=run, group=group, index=i, state="dispatched") for i in range(3))
    run.dispatched += 3


def _running(run: Run) -> Execution:
    found = Execution.objects.filter(run=run, state="running", group__kind="training").order_by("pk").first()
    assert found is not None
    return found


def _execution_finished(run: Run, at: datetime) -> None:
    Execution.objects.filter(pk=_running(run).pk).update(
        state="finished", outcome="complete", reward=1.0, finished_at=at, num_false_forks=1
    )
    run.finished += 1


def _execution_changed(run: Run, at: datetime) -> None:
    Execution.objects.filter(pk=_running(run).pk).update(attempt=2, num_calls=77)


def _role_change_started(run: Run, at: datetime) -> None:
    cell = Cell.objects.get(run=run, index=CELL)
    to_role = "training" if cell.role == "rollout" else "rollout"
    change = RoleChange.objects.create(cell=cell, epoch=cell.epoch, from_role=cell.role, to_role=to_role)
    RoleChange.objects.filter(pk=change.pk).update(started_at=at)
    Cell.objects.filter(pk=cell.pk).update(role="switching", desired_role=to_role, role_since=at)


def _role_change_finished(run: Run, at: datetime) -> None:
    change = RoleChange.objects.filter(cell__run=run, cell__index=CELL).latest("pk")
    RoleChange.objects.filter(pk=change.pk).update(
        state="finished", finished_at=max(at, change.started_at), phases=[["drain", 0.5]]
    )
    Cell.objects.filter(run=run, index=CELL).update(role=change.to_role, role_since=at)


def _cell(**changes: object) -> Callable[[Run, datetime], None]:
    def change(run: Run, at: datetime) -> None:
        Cell.objects.filter(run=run, index=CELL).update(role_since=at, **changes)

    return change


def _decision_made(run: Run, at: datetime) -> None:
    newest = Decision.objects.filter(run=run).order_by("-number").values_list("number", flat=True).first() or 0
    Decision.objects.create(
        run=run, number=newest + 1, evaluation_number=newest + 1, kind="leave_rollout", cell_index=1, accepted=False,
        reason_code="capacity", reason="cell 1 stays in rollout: 1 x 6 < W 9",
    )  # fmt: skip


def _step_committed(run: Run, at: datetime) -> None:
    Batch.objects.filter(run=run).update(metrics={"loss": 1.5, "staleness": {"3": 10}})
    run.version += 1


CHANGES: dict[E, Callable[[Run, datetime], None]] = {
    E.GROUP_DISPATCHED: _group_dispatched,
    E.EXECUTION_FINISHED: _execution_finished,
    E.EXECUTION_RETRIED: _execution_changed,
    E.EXECUTION_LAUNCHED: _execution_changed,
    E.ROLE_CHANGE_STARTED: _role_change_started,
    E.ROLE_CHANGE_FINISHED: _role_change_finished,
    E.CELL_LOST: _cell(role="lost", error="OOM"),
    E.CELL_RECOVERED: _cell(role="rollout", error=""),
    E.DECISION_MADE: _decision_made,
    E.STEP_COMMITTED: _step_committed,
    E.WEIGHTS_PUBLISHED: _cell(weight_version=99),
    E.BATCH_OPENED: lambda run, at: Batch.objects.create(run=run, number=900, burst=9, version=run.version),
    E.BATCH_SEALED: lambda run, at: Batch.objects.filter(run=run).update(num_votes=55),
    E.EVALUATION_FINISHED: lambda run, at: run.evaluations.update(reward_mean=0.987),
    E.OVERRIDE_SET: lambda run, at: demo_override(run),
    E.OVERRIDE_EXTENDED: lambda run, at: Override.objects.filter(run=run).update(expires_at=at + timedelta(hours=9)),
    E.OVERRIDE_RELEASED: lambda run, at: Override.objects.filter(run=run).update(released_at=at),
}
