"""An execution from queued to finished: lease, sandbox, reference harness, proxy, verifier, outcome."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection, connections
from django.db.models.functions import Now

from agents.actions.cancel_execution import cancel_execution
from agents.executions import disk
from agents.executions.leftovers import clear_directories, clear_leftovers
from agents.executions.worker import Worker
from agents.harness.worksite import Worksite
from agents.models import Assessment, Execution, Run
from tests.harness.conftest import SocketBackstage
from tests.harness.rows import queue, write_task
from tests.harness.watching import in_namespace
from tests.proxy.backstage import tool_text
from tests.support.waiting import wait_for
from tests.support.work import evaluate_next, run_next

State = Execution.State
WRITE = tool_text("bash", command="echo apple > a.txt")


@pytest.fixture
def task_set(tmp_path: Path) -> Path:
    return write_task(tmp_path / "tasks")


@contextmanager
def in_thread(worker: Worker) -> Iterator[threading.Thread]:
    """Run the next execution beside the test."""

    def work() -> None:
        try:
            run_next(worker)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    yield thread
    thread.join(60)
    assert not thread.is_alive()


def finished(worker: Worker, execution: Execution) -> Execution:
    assert evaluate_next(worker)
    execution.refresh_from_db()
    assert execution.state == State.FINISHED
    return execution


def started(execution: Execution) -> bool:
    execution.refresh_from_db()
    return execution.harness_started_at is not None


def test_an_execution_is_run_recorded_and_scored(stage: SocketBackstage, worker: Worker, task_set: Path) -> None:
    (execution,) = queue(stage, task_set)
    stage.engine(execution.run, WRITE, "done")
    assert run_next(worker)
    execution.refresh_from_db()
    assert execution.state == State.EVALUATING, execution.reason
    finished(worker, execution)
    run = Run.objects.get()
    assert (execution.outcome, execution.reward, execution.harness_exit) == ("complete", 1.0, 0), execution.harness_log
    assert execution.num_calls == 2
    assert (run.launched, run.finished) == (1, 1)
    assert execution.key_hash is None
    assert not any((worker.home / "runs").rglob("root"))
    assert not run_next(worker)
    assert not evaluate_next(worker)


def test_what_the_harness_reports_about_itself_lowers_the_training_reward(
    stage: SocketBackstage, worker: Worker, task_set: Path
) -> None:
    (execution,) = queue(stage, task_set, malformed_penalty=0.5)
    stage.engine(execution.run, tool_text("nonsense", a=1), WRITE, "done")
    assert run_next(worker)
    finished(worker, execution)
    assert (execution.num_malformed_calls, execution.reward, execution.training_reward) == (1, 1.0, 0.5)


def test_at_the_timeout_everything_dies_and_the_partial_work_is_scored(
    stage: SocketBackstage, worker: Worker, task_set: Path
) -> None:
    (execution,) = queue(stage, task_set, harness_timeout_s=1.5)
    slow = tool_text("bash", command="echo apple > a.txt; (setsid sleep 1000 &) ; sleep 1000")
    stage.engine(execution.run, slow)
    assert run_next(worker)
    execution.refresh_from_db()
    assert (execution.state, execution.timed_out) == (State.EVALUATING, True)
    finished(worker, execution)
    assert (execution.outcome, execution.reason_code, execution.reward) == ("partial", "harness_timeout", 1.0)


def test_a_tasks_own_time_limit_holds_too(stage: SocketBackstage, worker: Worker, tmp_path: Path) -> None:
    (execution,) = queue(stage, write_task(tmp_path / "tasks", "[agent]\ntimeout_sec = 1"))
    stage.engine(execution.run, tool_text("bash", command="sleep 1000"))
    assert run_next(worker)
    finished(worker, execution)
    assert (execution.outcome, execution.reason_code, execution.reward) == ("partial", "harness_timeout", 0.0)


def test_time_that_the_proxy_holds_a_call_is_not_the_agents(
    stage: SocketBackstage, worker: Worker, task_set: Path
) -> None:
    (execution,) = queue(stage, task_set, harness_timeout_s=2)
    with in_thread(worker):
        wait_for(lambda: started(execution), "the harness has started")
        wait_for(lambda: Execution.objects.get().held_s, "the call is held", until=lambda held_s: held_s > 2)
        stage.engine(execution.run, WRITE, "done")
    finished(worker, execution)
    assert (execution.outcome, execution.reward) == ("complete", 1.0)


def test_a_cancelled_execution_is_killed_and_leaves_nothing(
    stage: SocketBackstage, worker: Worker, task_set: Path
) -> None:
    (execution,) = queue(stage, task_set)
    stage.engine(execution.run, tool_text("bash", command="sleep 1000"))
    with in_thread(worker):
        wait_for(lambda: started(execution), "the harness has started")
        (sandbox,) = worker.harness_server.sandboxes
        cancel_execution(execution, user=None, reason="not wanted")
    assert in_namespace(sandbox.pid_namespace) == []
    assert not any((worker.home / "runs").rglob("root"))
    execution.refresh_from_db()
    assert (execution.state, execution.reward) == (State.CANCELLED, None)
    assert not Assessment.objects.exists()


def test_a_superseded_attempt_is_killed_and_the_next_one_counts(
    stage: SocketBackstage, worker: Worker, task_set: Path
) -> None:
    (execution,) = queue(stage, task_set)
    engine = stage.engine(execution.run, tool_text("bash", command="sleep 1000"))
    with in_thread(worker):
        wait_for(lambda: started(execution), "the harness has started")
        Execution.objects.update(attempt=2, state=State.QUEUED, key_hash=None, lease_owner="", lease_expires_at=None)
    engine.say(WRITE, "done")
    assert run_next(worker)
    finished(worker, execution)
    assert (execution.attempt, execution.reward) == (2, 1.0)
    assert Run.objects.get().launched == 1


def test_a_harness_that_never_reaches_its_model_is_unresolved_and_not_zero(
    stage: SocketBackstage, worker: Worker, task_set: Path
) -> None:
    (execution,) = queue(stage, task_set, harness_timeout_s=1)
    assert run_next(worker)
    finished(worker, execution)
    assert (execution.outcome, execution.reason_code, execution.reward) == ("unresolved", "no_call_acknowledged", None)


@pytest.mark.parametrize("test", ["#!/bin/bash\nexit 0\n", "#!/bin/bash\nexec /nowhere\n"])
def test_a_verifier_without_a_reward_is_unresolved_and_not_zero(
    stage: SocketBackstage, worker: Worker, tmp_path: Path, test: str
) -> None:
    (execution,) = queue(stage, write_task(tmp_path / "tasks", test=test))
    stage.engine(execution.run, WRITE, "done")
    assert run_next(worker)
    finished(worker, execution)
    assert (execution.outcome, execution.reason_code, execution.reward) == ("unresolved", "reward_missing", None)
    assert ("exit code 127" in execution.reason) is ("nowhere" in test)


def test_a_task_that_has_vanished_is_unresolved_by_name(stage: SocketBackstage, worker: Worker, task_set: Path) -> None:
    (execution,) = queue(stage, task_set)
    (task_set / "one" / "task.toml").unlink()
    assert run_next(worker)
    execution.refresh_from_db()
    assert (execution.state, execution.reason_code) == (State.FINISHED, "sandbox_never_healthy")
    assert "one/task.toml: is missing" in execution.reason


def test_a_lost_file_tree_is_unresolved(stage: SocketBackstage, worker: Worker, task_set: Path) -> None:
    (execution,) = queue(stage, task_set)
    stage.engine(execution.run, WRITE, "done")
    assert run_next(worker)
    for place in (worker.home / "runs").rglob("root"):
        place.rename(place.with_name("elsewhere"))
        break
    finished(worker, execution)
    assert (execution.outcome, execution.reason_code) == ("unresolved", "sandbox_lost")


def test_a_deleted_working_directory_is_no_work(stage: SocketBackstage, worker: Worker, task_set: Path) -> None:
    (execution,) = queue(stage, task_set)
    stage.engine(execution.run, tool_text("bash", command="rm -r /app"), "done")
    assert run_next(worker)
    finished(worker, execution)
    assert (execution.outcome, execution.reward) == ("no-work", 0.0)


def test_a_worker_that_ends_gives_its_leases_up(stage: SocketBackstage, worker: Worker, task_set: Path) -> None:
    (execution,) = queue(stage, task_set)
    stage.engine(execution.run, tool_text("bash", command="sleep 1000"))
    with in_thread(worker):
        wait_for(lambda: started(execution), "the harness has started")
        worker.end()
    execution.refresh_from_db()
    assert execution.state == State.RUNNING
    assert execution.lease_expires_at is not None
    assert execution.harness_ended_at is None


def test_leases_of_a_live_worker_are_left_alone(stage: SocketBackstage, worker: Worker, task_set: Path) -> None:
    (execution,) = queue(stage, task_set)
    stage.engine(execution.run, tool_text("bash", command="sleep 1000"))
    with in_thread(worker):
        wait_for(lambda: started(execution), "the harness has started")
        assert clear_leftovers() == 0
        Execution.objects.update(lease_owner=worker.owner.rpartition("/")[0] + "/1")
        assert clear_leftovers() == 1


def test_directories_of_attempts_that_are_over_are_cleared(
    stage: SocketBackstage, worker: Worker, task_set: Path
) -> None:
    (execution,) = queue(stage, task_set)
    stage.engine(execution.run, WRITE, "done")
    assert run_next(worker)
    live = worker.place(execution.run_id, execution.pk, 1)
    (old := live.with_name("999-1")).mkdir()
    assert clear_directories(worker.home) == 1
    assert (live.exists(), old.exists()) == (True, False)


def test_a_full_disk_pauses_the_run_until_there_is_room(
    stage: SocketBackstage, worker: Worker, task_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (execution,) = queue(stage, task_set)
    stage.engine(execution.run, WRITE, "done")
    with monkeypatch.context() as patch:
        patch.setattr(worker.disk.gauge, "min_bytes", 1 << 60)
        assert not run_next(worker)
        run = Run.objects.get()
        assert run.state == Run.State.PAUSED
        assert run.events.get(kind="run_paused").payload["code"] == disk.CODE
        assert not run_next(worker)
    assert worker.disk.check() == ""
    run.refresh_from_db()
    assert (run.state, run.state_reason) == (Run.State.STARTING, "")
    kinds = run.events.order_by("seq").values_list("kind", flat=True)
    assert list(kinds) == ["run_paused", "alarm_raised", "run_resumed", "alarm_cleared"]
    assert run_next(worker)
    finished(worker, execution)
    assert execution.reward == 1.0


def test_a_disk_that_fills_up_on_the_way_costs_no_execution(
    stage: SocketBackstage, worker: Worker, task_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (execution,) = queue(stage, task_set)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Worksite, "prepare", full)
    assert not run_next(worker)
    execution.refresh_from_db()
    assert execution.state == State.RUNNING
    assert Execution.objects.filter(lease_expires_at__lte=Now()).exists()
    assert Run.objects.get().state == Run.State.PAUSED


def test_lost_database_connections_cost_no_execution(stage: SocketBackstage, worker: Worker, task_set: Path) -> None:
    (execution,) = queue(stage, task_set)
    slow = tool_text("bash", command="echo apple > a.txt; until [ -e go ]; do sleep 0.1; done")
    stage.engine(execution.run, slow, "done")
    with in_thread(worker):
        wait_for(lambda: started(execution), "the harness has started")
        for _ in range(3):
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
        (place,) = (worker.home / "runs").rglob("root/app")
        (place / "go").touch()
    finished(worker, execution)
    assert (execution.attempt, execution.outcome, execution.reward) == (1, "complete", 1.0)
