"""What benchmarks of the proxy share: child processes, and executions of a run without cells."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from agents.models import Execution, Group, Project, Run, Task, TaskSet
from scheduler.config import preset
from scheduler.models import Cell

REPO_ROOT = Path(__file__).resolve().parents[2]
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def process(module: str, *options: str) -> Iterator[tuple[str, int]]:
    """A child that prints its address first: (address, process id)."""
    child = subprocess.Popen([sys.executable, "-m", module, *options], cwd=REPO_ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        address = next((word for word in line.split() if word.startswith("http://")), None)
        if address is None:
            raise RuntimeError(f"{module} did not start: {line!r}")
        _await_port(address)
        yield address, child.pid
    finally:
        child.terminate()
        child.wait(30)
        if child.stdout is not None:
            child.stdout.close()


@contextlib.contextmanager
def proxy(folder: Path) -> Iterator[tuple[str, int]]:
    """A recording proxy on a free port: (address, process id)."""
    options = ("--port", "0", "--socket", str(folder / "proxy.sock"), "--log-level", "warning")
    with process("agents.proxy", *options) as found:
        yield found


def executions(engine_url: str, count: int, **settings: Any) -> list[str]:
    """Keys of running executions, whose calls go to this engine."""
    config = preset("quickstart", max_calls_per_cell=10_000, **settings)
    project, _ = Project.objects.get_or_create(slug="bench", defaults={"name": "Benchmarks"})
    task_set, _ = TaskSet.objects.get_or_create(name="bench", digest="0", defaults={"path": "/"})
    task, _ = Task.objects.get_or_create(
        task_set=task_set, name="bench", defaults={"path": "/", "digest": "0", "config": {}}
    )
    made = Run.objects.create(
        project=project, task_set=task_set, name="bench", state=Run.State.RUNNING, seed=1,
        policy_kind=config.policy_kind, config=config.model_dump(mode="json"),
    )  # fmt: skip
    Cell.objects.create(
        run=made, index=0, is_core=True, role=Cell.Role.ROLLOUT, engine_url=engine_url, weight_version=0
    )
    group = Group.objects.create(run=made, task=task, number=0)
    keys = [secrets.token_urlsafe(24) for _ in range(count)]
    Execution.objects.bulk_create(
        Execution(
            run=made, group=group, index=i, state=Execution.State.RUNNING, key_hash=hashlib.sha256(k.encode()).digest()
        )
        for i, k in enumerate(keys)
    )
    return keys


def ask(url: str, key: str, messages: list[dict[str, Any]]) -> str:
    """The text of the policy's reply to a chat request of an execution."""
    answer = httpx.post(f"{url}/x/{key}/v1/chat/completions", json={"model": "m", "messages": messages}, timeout=600)
    answer.raise_for_status()
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


def cpu_s(pid: int) -> float:
    """User and system time of a process with its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _await_port(address: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
