"""Control groups end with whoever needs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agents.harness.sandbox import cgroups
from agents.harness.sandbox.base import Limits, SandboxError
from agents.harness.sandbox.client import SandboxServer
from tests.security.hostile import prepare
from tests.support.waiting import wait_for

REPO = Path(__file__).parents[2]
HARNESS_TESTS = Path(__file__).parents[1] / "harness"


@pytest.fixture(autouse=True)
def _with_groups() -> None:
    if cgroups.place() is None:
        pytest.skip("this machine lets no control group be made")


def group_of(server: SandboxServer, home: Path) -> Path:
    """The directory of a server's groups; a sandbox runs in one of them."""
    sandbox = prepare(server, home).start("import time; time.sleep(1000)", Limits())
    sandbox.wait_started(60)
    assert sandbox.cgroup is not None
    assert sandbox.cgroup.procs.read_text().split()
    return sandbox.cgroup.path.parent


def test_a_closed_server_leaves_no_group(tmp_path: Path) -> None:
    server = SandboxServer()
    place = group_of(server, tmp_path)
    server.close()
    assert not place.exists()


def test_the_worker_removes_the_groups_of_a_server_that_was_killed(tmp_path: Path) -> None:
    server = SandboxServer()
    place = group_of(server, tmp_path)
    assert server.process_id is not None
    os.kill(server.process_id, signal.SIGKILL)
    wait_for(lambda: not place.exists(), "its group is removed")
    server.close()


def test_a_group_is_gone_with_its_sandbox(tmp_path: Path) -> None:
    server = SandboxServer()
    attack = prepare(server, tmp_path)
    ended = [attack.start("pass", Limits()) for _ in range(6)]
    for sandbox in ended:
        sandbox.wait(60)
        assert sandbox.cgroup is not None
    assert [sandbox for sandbox in ended if sandbox.cgroup and sandbox.cgroup.path.exists()] == []
    server.close()


def test_the_next_server_removes_the_groups_of_a_worker_and_a_server_that_were_killed(tmp_path: Path) -> None:
    command = [sys.executable, str(HARNESS_TESTS / "starts_sandboxes.py"), str(tmp_path), "tag"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        number = int(worker.stdout.readline())
        groups = cgroups.open_groups()
        assert groups is not None
        place = next(groups.place.parent.glob(f"*-{number}-*"))
        os.kill(worker.pid, signal.SIGSTOP)
        os.kill(number, signal.SIGKILL)
        worker.kill()
    assert place.exists()
    groups.remove()

    def is_gone() -> bool:
        cgroups.place()
        return not place.exists()

    wait_for(is_gone, "its group is removed")


def test_a_server_that_cannot_make_a_filter_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyseccomp.py").write_text("raise RuntimeError('Unable to find libseccomp')")
    monkeypatch.setattr("agents.harness.sandbox.client._REPO", f"{tmp_path}:{REPO}")
    server = SandboxServer()
    with pytest.raises(SandboxError, match="libseccomp is not installed: apt-get install libseccomp2"):
        prepare(server, tmp_path).start("pass", Limits()).wait(60)
    server.close()
