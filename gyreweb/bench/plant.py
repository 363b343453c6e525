"""A Gyre of a benchmark's own, without cells: its own Postgres and Valkey, and the processes that `make up` starts."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.management import call_command
from django.db import connection

from agents.harness.sandbox.base import SUPERVISOR_MARK
from gyreweb import embedded
from gyreweb.bench.counted import FOLDER_VARIABLE
from gyreweb.bench.stage import REPO_ROOT
from gyreweb.embedded.ports import LOOPBACK, free_port
from gyreweb.embedded.postgres import Postgres
from gyreweb.embedded.valkey import Valkey
from gyreweb.supervisor.services import Ports, Service, all_services, environment

WORKERS = ("worker-executions", "worker-control")
_START_S, _END_S = 120.0, 90.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SANDBOX_SERVER = b"agents.harness.sandbox.server"


@contextlib.contextmanager
def servers(home: Path) -> Iterator[None]:
    """Postgres and Valkey of this GYRE_HOME; Django and child processes see them while the block runs."""
    before = {name: os.environ.get(name) for name in ("DATABASE_URL", "REDIS_URL", "GYRE_HOME")}
    settings = connection.settings_dict
    kept = {name: settings[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}
    for name in ("DATABASE_URL", "REDIS_URL"):
        os.environ.pop(name, None)
    connection.close()
    try:
        with embedded.servers(home) as urls:
            os.environ |= urls.environment() | {"GYRE_HOME": str(home)}
            url = urlsplit(urls.database)
            settings |= {
                "NAME": url.path.lstrip("/"), "USER": unquote(url.username or ""),
                "PASSWORD": unquote(url.password or ""), "HOST": url.hostname, "PORT": url.port,
            }  # fmt: skip
            call_command("migrate", verbosity=0, interactive=False)
            yield
            connection.close()
    finally:
        connection.close()
        settings |= kept
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@dataclass(frozen=True)
class Tree:
    """CPU seconds of a process itself, and of children of it that have ended."""

    own_s: float
    children_s: float

    def __sub__(self, other: Tree) -> Tree:
        return Tree(self.own_s - other.own_s, self.children_s - other.children_s)


@dataclass
class Plant:
    """The processes that take part in an execution, as `make up` starts them; cells and web are absent."""

    home: Path
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, names: Sequence[str], counts: Path | None = None) -> None:
        """`counts`: folder for the workers' counted database traffic."""
        services = {service.name: service for service in self._services()}
        for name in names:
            self._start(services[name], counts if name in WORKERS else None)

    def stop(self, names: Sequence[str]) -> None:
        for name in names:
            self._processes[name].send_signal(signal.SIGTERM)
        for name in names:
            process = self._processes.pop(name)
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def stop_all(self) -> None:
        self.stop(list(self._processes))

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def sandbox_servers(self) -> list[int]:
        """One below each worker that has made a sandbox."""
        workers = {self._processes[name].pid for name in WORKERS}
        return [pid for pid in _pids() if _parent(pid) in workers and _SANDBOX_SERVER in _command(pid)]

    def cpu(self) -> dict[str, Tree]:
        """By part. Postgres and its backends are one part, so are the sandbox servers."""
        postgres, valkey = Postgres(self.home).pid(), Valkey(self.home).pid()
        assert postgres is not None
        assert valkey is not None
        found = {name: _cpu(process.pid) for name, process in self._processes.items()}
        found["postgres"] = _sum([_cpu(postgres), *(_cpu(pid) for pid in _pids() if _parent(pid) == postgres)])
        found["valkey"] = _cpu(valkey)
        found["sandbox"] = _sum([_cpu(pid) for pid in self.sandbox_servers()])
        return found

    def _services(self) -> list[Service]:
        found = all_services(self.home, LOOPBACK, Ports(web=free_port(), proxies=(free_port(),)))
        # Nobody launches cells here: the engine is a scripted one.
        return [_with(service, "evaluation,cells,control", "evaluation,control") for service in found]

    def _start(self, service: Service, counts: Path | None) -> None:
        if counts is not None:
            service = _with(service, "gyreweb.celery", "gyreweb.bench.counted")
        log = self.home / "logs" / f"{service.name}-{len(list(self.home.glob('logs/*')))}.log"
        variables = environment(Ports(web=1, proxies=(1,)), SUPERVISOR_MARK, self.token) | dict(service.variables)
        if counts is not None:
            variables[FOLDER_VARIABLE] = str(counts)
        with log.open("wb") as output:
            process = subprocess.Popen(
                service.command, cwd=REPO_ROOT, env=variables, stdout=output, stderr=output, start_new_session=True
            )
        self._processes[service.name] = process
        deadline = time.monotonic() + _START_S
        while not service.ready(log.read_bytes()):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{service.name} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        print(f"{service.name} is ready", file=sys.stderr)


def _with(service: Service, old: str, new: str) -> Service:
    command = tuple(new if part == old else part for part in service.command)
    return Service(service.name, command, service.ready, service.variables)


def _sum(trees: Sequence[Tree]) -> Tree:
    return Tree(sum(tree.own_s for tree in trees), sum(tree.children_s for tree in trees))


def _cpu(pid: int) -> Tree:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return Tree(0.0, 0.0)  # a backend that ended just now counts among its parent's children
    user, system, ended_user, ended_system = (int(value) / _TICKS_PER_S for value in fields[11:15])
    return Tree(user + system, ended_user + ended_system)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        if match := re.search(r"^PPid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE):
            return int(match[1])
    return 0


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
