"""A sandbox server that stands still: it holds nobody up for longer than a bound, and the next sandbox gets another."""

import os
import resource
import signal
import threading
from pathlib import Path

import pytest

from agents.core.outcome import Reason
from agents.harness.sandbox import client
from agents.harness.sandbox.base import Exit, SandboxError, SandboxSpec, User
from agents.harness.sandbox.client import SandboxServer
from agents.harness.sandbox.workspace import Workspace
from agents.harness.taskformat.dockerfile import Image
from tests.support.waiting import wait_for


@pytest.fixture
def spec(tmp_path: Path) -> SandboxSpec:
    workspace = Workspace(tmp_path, tmp_path / "executions" / "attempt")
    workspace.create(Image(), tmp_path, User(), "")
    return SandboxSpec(
        workspace.area, workspace.root, workspace.agent_log, ("/bin/true",), "", workspace.agent_binds(User()), {}
    )


def test_a_server_that_hangs_is_replaced_and_its_sandboxes_are_lost(
    spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ASKED_AFTER_S", 0.2)
    monkeypatch.setattr(client, "ANSWERS_WITHIN_S", 2.0)
    server = SandboxServer()
    try:
        assert server.run(spec, 60) == Exit(0)
        hanging = server.process_id
        assert hanging is not None
        os.kill(hanging, signal.SIGSTOP)
        # Far more than a socket holds: whoever sends waits, and nobody else may wait for them.
        senders = [threading.Thread(target=_start, args=(server, spec)) for _ in range(400)]
        for sender in senders:
            sender.start()
        wait_for(lambda: not any(sender.is_alive() for sender in senders), "nobody waits for the hanging server")
        wait_for(lambda: server.process_id != hanging or not server.sandboxes, "its sandboxes are given up")
        assert server.run(spec, 60) == Exit(0)
        assert server.process_id != hanging
    finally:
        server.close()


def test_a_worker_with_thousands_of_open_files_hears_its_server(spec: SandboxSpec) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    held = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC) for _ in range(1100)]
    server = SandboxServer()
    try:
        assert max(held) >= 1024
        assert server.run(spec, 60) == Exit(0)
    finally:
        server.close()
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _start(server: SandboxServer, spec: SandboxSpec) -> None:
    try:
        server.start(spec).wait_started(60)
    except SandboxError as error:
        assert error.code in (Reason.SANDBOX_NEVER_HEALTHY, Reason.SANDBOX_LOST)  # noqa: PT017


def test_a_server_that_has_nothing_to_do_is_left_in_peace(spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ASKED_AFTER_S", 0.05)
    asked: list[bytes] = []
    server = SandboxServer()
    try:
        assert server.run(spec, 60) == Exit(0)
        idle, loads = server.process_id, client.json.loads
        monkeypatch.setattr(client.json, "loads", lambda raw: asked.append(raw) or loads(raw))
        wait_for(lambda: sum(b'"here"' in raw for raw in asked) >= 3, "it answers while it idles")
        assert server.run(spec, 60) == Exit(0)
        assert server.process_id == idle
    finally:
        server.close()
