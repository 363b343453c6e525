"""Nothing of a sandbox outlives those who made it, also when they are killed while sandboxes start."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import replace
from operator import not_
from pathlib import Path

import pytest

from agents.harness.sandbox import processes
from agents.harness.sandbox.base import MARKS, SandboxError, SandboxSpec, User
from agents.harness.sandbox.client import SandboxServer
from agents.harness.sandbox.workspace import Workspace, read_log
from agents.harness.taskformat.dockerfile import Image
from gyreweb.supervisor import record
from tests.support.waiting import wait_for

HERE = Path(__file__).parent
REPO = HERE.parents[1]
#: Moments at which those who make sandboxes are killed: one in which some have only begun is sure to be among them.
MOMENTS_S = [number * 0.004 for number in range(12)]


@pytest.fixture
def tag() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def spec(tmp_path: Path, tag: str) -> SandboxSpec:
    workspace = Workspace(tmp_path, tmp_path / "executions" / "attempt")
    workspace.create(Image(), tmp_path, User(), "")
    env = {"PATH": "/usr/bin:/bin", "TAG": tag}
    return SandboxSpec(
        workspace.area, workspace.root, workspace.agent_log, ("/bin/sleep", "1000"), "",
        workspace.agent_binds(User()), env,
    )  # fmt: skip


def test_kill_9_of_the_sandbox_server_while_sandboxes_start_leaves_none(spec: SandboxSpec, tag: str) -> None:
    server = SandboxServer()
    for moment_s in MOMENTS_S:
        server.start(spec).wait_started(60)
        killed = server.process_id
        assert killed is not None
        sandboxes = [server.start(spec) for _ in range(4)]
        time.sleep(moment_s)
        os.kill(killed, signal.SIGKILL)
        for sandbox in sandboxes:
            with pytest.raises(SandboxError):
                sandbox.wait(60)
        wait_for(lambda: processes.marked("TAG", tag), "nothing is left", until=not_)
    server.close()


def test_a_closed_server_leaves_no_sandbox_that_had_only_begun(spec: SandboxSpec, tag: str) -> None:
    for moment_s in MOMENTS_S:
        server = SandboxServer()
        server.start(spec).wait_started(60)
        for _ in range(4):
            server.start(spec)
        time.sleep(moment_s)
        server.close()
        wait_for(lambda: processes.marked("TAG", tag), "nothing is left", until=not_)


def test_a_sandbox_that_is_stopped_while_it_starts_leaves_nothing(spec: SandboxSpec, tag: str) -> None:
    server = SandboxServer()
    for moment_s in MOMENTS_S:
        sandbox = server.start(spec)
        time.sleep(moment_s)
        with contextlib.suppress(SandboxError):  # it never stood
            server.end(sandbox)
        wait_for(lambda: processes.marked("TAG", tag), "nothing is left", until=not_)
    server.close()


def test_a_supervisor_finds_the_sandboxes_of_a_worker_that_was_killed_with_its_server(tmp_path: Path, tag: str) -> None:
    mine = record.Record(pid=0, token=secrets.token_hex(16), web="", proxy="")
    environment = {**os.environ, "PYTHONPATH": str(REPO), record.TOKEN_VARIABLE: mine.token}
    command = [sys.executable, str(HERE / "starts_sandboxes.py"), str(tmp_path), tag]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        server_pid = int(worker.stdout.readline())
        assert processes.marked("TAG", tag) != []
        worker.kill()
        os.kill(server_pid, signal.SIGKILL)
    record.kill_marked(mine)
    assert record.marked(mine) == []
    wait_for(lambda: processes.marked("TAG", tag), "nothing is left", until=not_)


def test_the_marks_are_not_in_the_environment_of_what_runs_inside(
    spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(record.TOKEN_VARIABLE, "0" * 32)
    server = SandboxServer()
    end = server.start(replace(spec, command=("/usr/bin/env",))).wait(60)
    server.close()
    assert end is not None
    names = {line.partition("=")[0] for line in read_log(spec.log).splitlines()}
    assert "TAG" in names
    assert names.isdisjoint(MARKS)
