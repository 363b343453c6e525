"""Children of the supervisor: restarted when they crash, gone when it stops or dies."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from operator import not_
from pathlib import Path

import pytest

from gyreweb.env import REPO_ROOT
from gyreweb.supervisor import record
from gyreweb.supervisor.children import Child, stop_all
from gyreweb.supervisor.errors import CannotStart
from gyreweb.supervisor.services import Service
from tests.support.waiting import wait_for

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
FORKING = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]); {SLEEPER}"
#: A supervisor in miniature: holds the record, starts one forking child, and waits.
HOLDER = f"""
import sys, time
from pathlib import Path
from gyreweb.supervisor import record
from gyreweb.supervisor.children import Child
from gyreweb.supervisor.services import Service
home = Path(sys.argv[1])
with record.held(home, "http://web", "http://proxy") as mine:
    service = Service("child", (sys.executable, "-c", {FORKING!r}), lambda log: b"up" in log)
    child = Child(service, home / "child.log", {{"PATH": "/usr/bin:/bin", record.TOKEN_VARIABLE: mine.token}}, print)
    child.start()
    while not child.ready:
        child.watch()
    print("ready", flush=True)
    time.sleep(600)
"""


def make_child(program: str, log: Path, notices: list[str]) -> Child:
    service = Service("child", (sys.executable, "-c", program), lambda text: b"up" in text)
    return Child(service, log, dict(os.environ), notices.append)


def watch_until_ready(child: Child) -> None:
    wait_for(lambda: child.watch() or child.ready, "the child is ready")


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    stop_all(started, hurry=lambda: True)


def test_a_crashed_child_is_reported_with_its_log_and_started_again(tmp_path: Path, children: list[Child]) -> None:
    notices: list[str] = []
    child = make_child(f"import sys; print('my last words')\n{SLEEPER}", tmp_path / "child.log", notices)
    children.append(child)
    child.start()
    watch_until_ready(child)
    first = child.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: child.watch() or notices, "its end is reported")
    watch_until_ready(child)
    assert child.pid not in (None, first)
    assert "child was ended by signal 9; it starts again in 0.5 s." in notices[0]
    assert "| my last words" in notices[0]


def test_a_crash_without_a_log_folder_is_outlived_and_the_folder_made_again(
    tmp_path: Path, children: list[Child]
) -> None:
    notices: list[str] = []
    child = make_child(SLEEPER, tmp_path / "logs" / "child.log", notices)
    children.append(child)
    child.start()
    watch_until_ready(child)
    shutil.rmtree(tmp_path / "logs")
    (tmp_path / "logs").touch()  # nor can it be made again yet
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    wait_for(lambda: child.watch() or notices, "both troubles are reported", until=lambda _: len(notices) >= 2)
    assert notices[0].startswith("child was ended by signal 9; it starts again")
    assert notices[1].startswith("child cannot be started: ")
    (tmp_path / "logs").unlink()
    watch_until_ready(child)
    assert child.log.exists()


def test_a_child_that_ignores_term_is_killed(tmp_path: Path, children: list[Child]) -> None:
    stubborn = make_child(STUBBORN, tmp_path / "child.log", [])
    children.append(stubborn)
    stubborn.start()
    watch_until_ready(stubborn)
    stop_all(children, hurry=lambda: True)
    assert stubborn.pid is None


def test_ready_refers_to_this_start_not_to_an_older_log(tmp_path: Path, children: list[Child]) -> None:
    log = tmp_path / "child.log"
    log.write_text("up\n")
    child = make_child("import time; time.sleep(600)", log, [])
    children.append(child)
    child.start()
    child.watch()
    assert not child.ready


def test_a_second_supervisor_is_refused_and_kill_9_of_the_first_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], cwd=REPO_ROOT, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
            mine = record.read(tmp_path)
            assert mine is not None
            assert mine.pid == holder.pid
            assert record.is_held(tmp_path)
            with pytest.raises(CannotStart, match=rf"already runs .*pid {holder.pid}"), record.held(tmp_path, "", ""):
                pass
            assert len(record.marked(mine)) == 2  # the child and what it started
        finally:
            holder.kill()
    assert not record.is_held(tmp_path)
    with record.held(tmp_path, "", "") as successor:
        assert successor.token != mine.token
        wait_for(lambda: record.marked(mine), "nothing of the first is left", until=not_)


def test_a_process_without_our_token_is_never_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE) as stranger:
        try:
            stale = record.Record(pid=stranger.pid, token="0" * 32, web="", proxy="")
            assert record.kill_marked(stale) == 0
            assert stranger.poll() is None
        finally:
            with suppress(ProcessLookupError):
                stranger.kill()
