"""Executions that are leased together, evaluated where they ran, and what they say to the database meanwhile."""

from __future__ import annotations

import hashlib
from pathlib import Path

import psycopg
import pytest

from agents.executions import heartbeat
from agents.executions.leases import lease_evaluations, lease_queued
from agents.executions.run import Ending, run_attempt, take_queued
from agents.executions.worker import Worker
from agents.models import Execution, KeptWorkspace, Run, RunEvent
from gyreweb.bench import counted
from tests.harness.conftest import SocketBackstage
from tests.harness.rows import queue, write_task
from tests.proxy.backstage import Backstage, tool_text

State = Execution.State
WRITE = tool_text("bash", command="echo apple > a.txt")


def test_executions_leased_together_are_counted_told_and_keyed_each_by_itself(stage: Backstage, tmp_path: Path) -> None:
    made = queue(stage, write_task(tmp_path / "tasks"), 5)
    Execution.objects.filter(pk=made[1].pk).update(attempt=2)
    leases = lease_queued("me", 3)
    assert [(lease.execution_id, lease.attempt) for lease in leases] == [
        (made[0].pk, 1), (made[1].pk, 2), (made[2].pk, 1)
    ]  # fmt: skip
    for lease in leases:
        row = Execution.objects.get(pk=lease.execution_id)
        assert bytes(row.key_hash) == hashlib.sha256(lease.key.encode()).digest()
        assert (row.state, row.lease_owner) == (State.RUNNING, "me")
    assert Run.objects.get().launched == 2, "an execution that starts again was counted before"
    events = RunEvent.objects.order_by("seq").values_list("seq", "kind", "payload__execution", "payload__attempt")
    assert list(events) == [
        (number, "execution_launched", lease.execution_id, lease.attempt) for number, lease in enumerate(leases, 1)
    ]
    assert Run.objects.get().event_seq == 3
    assert len(lease_queued("you", 3)) == 2
    assert lease_queued("you", 3) == []


def test_a_paused_run_starts_nothing_and_lends_no_evaluation_twice(stage: Backstage, tmp_path: Path) -> None:
    made = queue(stage, write_task(tmp_path / "tasks"), 2)
    Run.objects.update(state=Run.State.PAUSED)
    assert lease_queued("me", 2) == []
    Execution.objects.filter(pk=made[0].pk).update(state=State.EVALUATING, sandbox={"timeout": "harness_timeout"})
    (lease,) = lease_evaluations("me", 2)
    assert (lease.execution_id, lease.end.timeout, lease.kept) == (made[0].pk, "harness_timeout", None)
    assert lease_evaluations("you", 2) == []


def test_a_short_evaluation_is_done_where_the_harness_ran(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    (execution,) = queue(stage, write_task(tmp_path / "tasks"))
    stage.engine(execution.run, WRITE, "done")
    (lease,) = take_queued(worker, 4)
    assert run_attempt(worker, lease, evaluates=True) is Ending.OVER
    execution.refresh_from_db()
    assert (execution.state, execution.outcome, execution.reward) == (State.FINISHED, "complete", 1.0)
    assert execution.harness_ended_at is not None
    assert KeptWorkspace.objects.get().attempt == 1
    assert not any((worker.home / "runs").rglob("root"))


def test_a_long_evaluation_is_left_to_the_evaluators(stage: SocketBackstage, worker: Worker, tmp_path: Path) -> None:
    settings = "[verifier]\ntimeout_sec = 600"
    (execution,) = queue(stage, write_task(tmp_path / "tasks", settings), evaluation_timeout_s=600)
    stage.engine(execution.run, WRITE, "done")
    (lease,) = take_queued(worker, 1)
    assert run_attempt(worker, lease, evaluates=True) is Ending.TO_EVALUATE
    execution.refresh_from_db()
    assert (execution.state, execution.lease_owner, execution.lease_expires_at) == (State.EVALUATING, "", None)


@pytest.mark.parametrize("closes_its_group", [False, True])
def test_from_lease_to_finish_there_are_at_most_twelve_round_trips(
    stage: SocketBackstage, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closes_its_group: bool
) -> None:
    execution, *_ = queue(stage, write_task(tmp_path / "tasks"), 1 if closes_its_group else 2)
    stage.engine(execution.run, WRITE, "done")
    monkeypatch.setattr(heartbeat, "_CHECK_EVERY_S", 600.0)  # its checks are those of a worker, not of an execution
    for place in (psycopg, psycopg.Connection):
        monkeypatch.setattr(place, "connect", place.connect)  # put back when the test ends
    counted.trace_connections(tmp_path)
    (lease,) = take_queued(worker, 1)
    run_attempt(worker, lease, evaluates=True)
    found = counted.total(tmp_path)
    monkeypatch.undo()
    finished = Execution.objects.select_related("group").get(pk=execution.pk)
    assert finished.outcome == "complete"
    assert (finished.group.ready_at is not None) == closes_its_group
    assert 0 < found.round_trips <= 12, found.statements
