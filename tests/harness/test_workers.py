"""Real Celery workers: woken by messages, killed in the middle, started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from operator import not_
from pathlib import Path

import pytest
from django.db.models.functions import Now

from agents.models import Assessment, Execution
from gyreweb.celery import app
from tests.harness.conftest import SocketBackstage
from tests.harness.rows import queue, write_task
from tests.harness.watching import in_namespace
from tests.proxy.backstage import Loop, tool_text
from tests.support.waiting import wait_for

REPO = Path(__file__).parents[2]
State = Execution.State
Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def stage(database_url: str, gyre_home: Path) -> Iterator[SocketBackstage]:
    """The proxy at the place where workers of this GYRE_HOME look for it."""
    path = gyre_home / "run" / "proxy.sock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        loop = Loop()
        stack.callback(loop.close)
        found = SocketBackstage(database_url, stack, loop)
        found.socket_path = path
        stack.callback(path.unlink)
        stack.callback(found.stop_proxy)
        found.start_proxy()
        yield found


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[Start]:
    """Starts Celery workers in sessions of their own; what still runs is ended with the test."""
    processes = []

    def start() -> subprocess.Popen[bytes]:
        log = tmp_path / f"worker-{len(processes)}.log"
        command = [sys.executable, "-m", "celery", "-A", "gyreweb.celery", "worker", "--pool", "threads"]
        command += [
            "--concurrency",
            "4",
            "--queues",
            "executions,evaluation",
            "--without-gossip",
            "--without-mingle",
            "--loglevel",
            "INFO",
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=REPO, env={**os.environ, "GYRE_DB_POOL_SIZE": "4"}, stdout=output, stderr=output
            )
        processes.append(process)
        wait_for(lambda: b" ready." in log.read_bytes() or process.poll() is not None, "the worker is ready")
        assert process.poll() is None, log.read_text()
        return process

    yield start
    for process in processes:
        process.terminate()
        process.wait(60)


def test_a_message_wakes_a_worker_and_kill_9_loses_nothing(
    stage: SocketBackstage, start_worker: Start, tmp_path: Path
) -> None:
    (execution,) = queue(stage, write_task(tmp_path / "tasks"))
    engine = stage.engine(execution.run, tool_text("bash", command="sleep 1000"))
    first = start_worker()
    app.send_task("agents.tasks.run_execution")
    wait_for(lambda: Execution.objects.get().sandbox, "its sandbox stands")
    execution.refresh_from_db()
    namespace = int(os.readlink(f"/proc/{execution.sandbox['pid']}/ns/pid").strip("pid:[]"))
    assert in_namespace(namespace)
    first.send_signal(signal.SIGKILL)
    first.wait(60)
    wait_for(lambda: in_namespace(namespace), "its processes end", until=not_)

    engine.say(tool_text("bash", command="echo apple > a.txt"), "done")
    start_worker()
    wait_for(Execution.objects.filter(lease_expires_at__lte=Now()).exists, "its lease is given up")
    Execution.objects.update(attempt=2, state=State.QUEUED, key_hash=None, lease_owner="", lease_expires_at=None)
    app.send_task("agents.tasks.run_execution")
    wait_for(lambda: Execution.objects.get().state, "it finishes", until=lambda state: state == State.FINISHED)
    execution.refresh_from_db()
    assert (execution.attempt, execution.reward) == (2, 1.0)
    assert Assessment.objects.count() == 1
    execution.run.refresh_from_db()
    assert (execution.run.launched, execution.run.finished) == (1, 1)


def test_a_worker_that_is_told_to_end_gives_its_leases_up(
    stage: SocketBackstage, start_worker: Start, tmp_path: Path
) -> None:
    (execution,) = queue(stage, write_task(tmp_path / "tasks"))
    stage.engine(execution.run, tool_text("bash", command="sleep 1000"))
    worker = start_worker()
    app.send_task("agents.tasks.run_execution")
    wait_for(lambda: Execution.objects.get().sandbox, "its sandbox stands")
    worker.terminate()
    assert worker.wait(60) == 0
    assert Execution.objects.filter(state=State.RUNNING, lease_expires_at__lte=Now()).exists()
    execution.refresh_from_db()
    assert execution.harness_ended_at is None
