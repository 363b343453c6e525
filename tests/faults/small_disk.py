"""What happens on a small disk that fills up. Run by test_disk_full.py, with everything on a file system of its own."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from django.db import connections

from agents.actions.expire_leases import expire_leases
from agents.executions.worker import Worker
from agents.models import Assessment, Call, Execution, Run
from agents.room import RESERVE_PART, Level
from gyreweb.embedded.postgres import Postgres
from tests.harness.conftest import SocketBackstage
from tests.harness.rows import TEST, queue, write_task
from tests.proxy.backstage import Loop, tool_text
from tests.support.waiting import wait_for
from tests.support.work import evaluate_next, run_next

SERVERS = Path(tempfile.gettempdir()) / f"gyre-test-servers-{os.geteuid()}"
WAITS = tool_text("bash", command="echo apple > a.txt; until [ -e go ]; do sleep 0.1; done")
State = Execution.State


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    (path / "postgres").mkdir(parents=True, mode=0o700)  # the database that lies on this disk
    return path


@pytest.fixture
def stage(database_url: str, home: Path) -> Iterator[SocketBackstage]:
    """The real proxy, told where its disk is."""
    with contextlib.ExitStack() as stack:
        loop = Loop()
        stack.callback(loop.close)
        found = SocketBackstage(database_url, stack, loop)
        found.socket_path = home / "proxy.sock"
        stack.callback(found.stop_proxy)
        found.start_proxy(home=home)
        yield found


@pytest.fixture
def worker(stage: SocketBackstage, home: Path) -> Iterator[Worker]:
    found = Worker(home, stage.socket_path)
    found.disk.start()
    yield found
    found.end()


@pytest.fixture
def ballast(home: Path) -> Iterator[Path]:
    """A file that takes the disk's room."""
    path = home / "ballast"
    yield path
    path.unlink(missing_ok=True)


def fill(ballast: Path) -> None:
    """Take the last byte."""
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


@contextlib.contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(60)
    assert not thread.is_alive()


def reaches(state: Run.State) -> None:
    wait_for(lambda: Run.objects.get().state, f"the run is {state}", until=lambda seen: seen == state)


def started(execution: Execution) -> bool:
    return Execution.objects.filter(pk=execution.pk, harness_started_at__isnull=False).exists()


def test_an_execution_that_could_not_write_is_made_again_and_the_run_goes_on_by_itself(
    stage: SocketBackstage, worker: Worker, tmp_path: Path, ballast: Path, home: Path
) -> None:
    (execution,) = queue(stage, write_task(tmp_path / "tasks"))
    engine = stage.engine(execution.run, WAITS, "done")
    with beside(lambda: run_next(worker)):
        wait_for(lambda: any(worker.home.rglob("root/app/a.txt")), "the harness has written")
        assert (home / "postgres" / "reserve").stat().st_size == worker.disk.gauge.min_bytes // RESERVE_PART
        fill(ballast)
    run = Run.objects.get()
    reaches(Run.State.PAUSED)
    run.refresh_from_db()
    assert "the disk is full: " in run.state_reason
    assert "work goes on by itself" in run.state_reason
    execution.refresh_from_db()
    assert (execution.state, Assessment.objects.count()) == (State.RUNNING, 0)
    assert "the disk is full" in execution.reason
    assert not any(worker.home.glob("runs/*/executions/*"))
    assert not run_next(worker)

    ballast.unlink()
    reaches(Run.State.STARTING)  # nobody has sent a message
    wait_for((home / "postgres" / "reserve").exists, "the reserve is there again")
    kinds = run.events.order_by("seq").values_list("kind", flat=True)
    assert list(kinds)[-4:] == ["run_paused", "alarm_raised", "run_resumed", "alarm_cleared"]
    assert expire_leases(run.pk) == 1
    engine.say(tool_text("bash", command="echo apple > a.txt"), "done")
    assert run_next(worker)
    assert evaluate_next(worker)
    execution.refresh_from_db()
    assert (execution.attempt, execution.outcome, execution.reward, execution.reason) == (2, "complete", 1.0, "")


def test_a_worker_that_has_nothing_to_do_pauses_runs_and_lets_them_go_on(
    stage: SocketBackstage, gyre_home: Path, tmp_path: Path
) -> None:
    stage.run()
    ballast, log = gyre_home / "ballast", tmp_path / "worker.log"
    (reserve := gyre_home / "postgres" / "reserve").parent.mkdir()
    command = [sys.executable, "-m", "celery", "-A", "gyreweb.celery", "worker", "--pool", "threads"]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "-Q", "executions", "-c", "1", "-l", "INFO"], stdout=output, stderr=output
        ) as process,
    ):
        try:
            wait_for(reserve.exists, "the reserve is there")
            fill(ballast)
            reaches(Run.State.PAUSED)
            ballast.unlink()
            reaches(Run.State.STARTING)
        finally:
            ballast.unlink(missing_ok=True)
            process.terminate()


def test_a_verdict_that_was_reached_on_a_full_disk_is_not_written(
    stage: SocketBackstage, worker: Worker, tmp_path: Path, ballast: Path
) -> None:
    waits = TEST.replace("#!/bin/bash", "#!/bin/bash\ntouch /app/judged; until [ -e /app/go ]; do sleep 0.1; done")
    (execution,) = queue(stage, write_task(tmp_path / "tasks", test=waits))
    stage.engine(execution.run, tool_text("bash", command="echo apple > a.txt"), "done")
    assert run_next(worker)
    with beside(lambda: evaluate_next(worker)):
        wait_for(lambda: any(worker.home.rglob("root/app/judged")), "the task is judged")
        fill(ballast)
        wait_for(lambda: worker.disk.gauge.level, "the disk is full", until=lambda level: level is Level.CRITICAL)
        place = worker.place(execution.run_id, execution.pk, 1) / "root" / "app" / "go"
        place.touch()
    assert Assessment.objects.count() == 0
    assert not evaluate_next(worker)
    ballast.unlink()
    wait_for(lambda: worker.disk.gauge.level, "the disk has room", until=lambda level: level is Level.ENOUGH)
    wait_for(lambda: evaluate_next(worker), "the verdict is reached again")
    execution.refresh_from_db()
    assert (execution.attempt, execution.outcome, execution.reward) == (1, "complete", 1.0)


def test_nothing_is_recorded_on_a_full_disk_and_the_database_lives(
    stage: SocketBackstage, home: Path, ballast: Path
) -> None:
    run = stage.run()
    stage.engine(run, "done")
    _, base = stage.execution(run)
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}]}

    def ask() -> httpx.Response:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(stage.socket_path)), timeout=60) as client:
            return client.post(f"http://proxy{base}/v1/chat/completions", json=body)

    assert ask().status_code == 200
    postmaster = Postgres(SERVERS).pid()
    assert postmaster is not None
    fill(ballast)
    wait_for(lambda: stage.app.services.spool.lacks_room, "the proxy sees the full disk")
    refused = ask()
    assert (refused.status_code, Call.objects.count()) == (503, 1)
    assert refused.headers["retry-after"]
    assert "0 MB free" in refused.json()["error"]["message"]
    ballast.unlink()
    wait_for(lambda: not stage.app.services.spool.lacks_room, "the proxy sees the room")
    assert (ask().status_code, Call.objects.count()) == (200, 2)
    assert Postgres(SERVERS).pid() == postmaster
    with psycopg.connect(stage.database_url) as connection:
        assert connection.execute("SELECT count(*) FROM agents_call").fetchone() == (2,)
