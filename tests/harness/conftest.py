"""A worker of our own with real sandboxes, in front of the real proxy with a scripted engine."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.executions.worker import Worker
from agents.harness.sandbox.client import SandboxServer
from tests.proxy.backstage import Backstage, Loop


class SocketBackstage(Backstage):
    """The proxy listens on a unix socket, where sandboxes reach it."""

    socket_path: Path

    def start_proxy(self, **options: Any) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.socket_path))
        self._serve(listener, **options)


@pytest.fixture
def stage(database_url: str, tmp_path: Path) -> Iterator[SocketBackstage]:
    with contextlib.ExitStack() as stack:
        loop = Loop()
        stack.callback(loop.close)
        found = SocketBackstage(database_url, stack, loop)
        found.socket_path = tmp_path / "proxy.sock"
        stack.callback(found.stop_proxy)
        found.start_proxy()
        yield found


@pytest.fixture
def worker(stage: SocketBackstage, tmp_path: Path) -> Iterator[Worker]:
    """A worker whose home has mode 0700."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    found = Worker(home, stage.socket_path)
    yield found
    found.end()


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    found = SandboxServer()
    yield found
    found.close()
