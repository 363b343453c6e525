"""What all executions of one worker process share: its name, the sandbox server, the heartbeat, the watch on limits."""

from __future__ import annotations

import os
import socket
import threading
from functools import cached_property
from pathlib import Path

from django.conf import settings

from agents.executions.disk import DiskWatch
from agents.executions.heartbeat import Heartbeat
from agents.harness.drivers import DRIVERS
from agents.harness.sandbox.client import SandboxServer
from agents.harness.sandbox.processes import start_ticks
from agents.harness.sandbox.watch import Watch

#: Short evaluations that one worker does at once beside running harnesses.
EVALUATIONS_AT_ONCE = 24


class Worker:
    """`home` is GYRE_HOME. Sandbox servers start when they are first needed."""

    def __init__(self, home: Path, proxy_socket: Path) -> None:
        self.home, self.proxy_socket = home, proxy_socket
        self.owner = f"{socket.gethostname()}/{os.getpid()}/{start_ticks(os.getpid())}"
        self.heartbeat = Heartbeat(self.owner)
        self.disk = DiskWatch(home, self.heartbeat)
        self.ending = threading.Event()
        #: Held by whoever evaluates beside running harnesses: verifiers have short limits and share the processors.
        self.evaluating = threading.BoundedSemaphore(EVALUATIONS_AT_ONCE)
        self._servers: list[SandboxServer] = []

    @cached_property
    def harness_server(self) -> SandboxServer:
        """Has imported the harness programs."""
        programs = {name: target for driver in DRIVERS.values() for name, target in driver.programs.items()}
        return self._server(programs)

    @property
    def evaluation_server(self) -> SandboxServer:
        """The harness server where there is one: no command in a sandbox sees what it has imported."""
        return self.harness_server if "harness_server" in self.__dict__ else self._plain_server

    @cached_property
    def _plain_server(self) -> SandboxServer:
        return self._server({})

    def place(self, run_id: int, execution_id: int, attempt: int) -> Path:
        """The directory of one attempt."""
        return self.home / "runs" / str(run_id) / "executions" / f"{execution_id}-{attempt}"

    def end(self) -> None:
        """Stop all work; leases are given up."""
        self.ending.set()
        self.disk.end()
        self.heartbeat.end()
        for server in self._servers:
            server.close()

    def _server(self, programs: dict[str, str]) -> SandboxServer:
        server = SandboxServer(programs)
        Watch(server).start()
        self._servers.append(server)
        return server


_lock = threading.Lock()
_worker: Worker | None = None


def this_worker() -> Worker:
    """The worker of this process."""
    global _worker
    with _lock:
        if _worker is None:
            _worker = Worker(Path(settings.GYRE_HOME), Path(settings.PROXY_SOCKET))
        return _worker
