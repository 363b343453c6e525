"""A thread that measures what sandboxes use, and stops those over the limits that the kernel does not hold.

To walk a tree of many files takes long. So each sandbox is measured as often as its own tree allows, and at once when
its file system has grown by more than the sandbox had left at the last measurement.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass

from agents.harness.sandbox.base import ExitCause, Limits
from agents.harness.sandbox.client import Sandbox, SandboxServer
from agents.harness.sandbox.usage import Usage, memory_of

_TICK_S = 0.5
_EVERY_S = 2.0
#: A measurement that took t seconds of processor time is repeated after 50 t, or after 3 t where the file system has
#: grown. Processor time, because on a busy machine the clock would count waiting, which must not delay the next.
_REST, _SHORT_REST = 50, 3
#: The same for memory, which grows faster.
_MEMORY_REST = 20


@dataclass
class Growth:
    """Bytes and files by which a file system has ever grown: what was freed in between does not count."""

    num_bytes: int = 0
    num_files: int = 0
    _used: tuple[int, int] | None = None

    def measure(self, place: str) -> None:
        with contextlib.suppress(OSError):
            found = os.statvfs(place)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_files - found.f_ffree
            if self._used is not None:
                self.num_bytes += max(0, used[0] - self._used[0])
                self.num_files += max(0, used[1] - self._used[1])
            self._used = used


@dataclass
class Schedule:
    """When a sandbox is measured next, and the growth of its file system at which it must be."""

    due: float = 0.0
    soonest: float = 0.0
    num_bytes: int = 0
    num_files: int = 0
    memory_due: float = 0.0

    def is_due(self, now: float, growth: Growth) -> bool:
        grown = growth.num_bytes >= self.num_bytes or growth.num_files >= self.num_files
        return now >= self.due or (grown and now >= self.soonest)

    def measured(self, now: float, cost_s: float, limits: Limits, usage: Usage, growth: Growth) -> None:
        self.due = now + max(_EVERY_S, _REST * cost_s)
        self.soonest = now + _SHORT_REST * cost_s
        self.num_bytes = growth.num_bytes + limits.disk_bytes - usage.num_bytes
        self.num_files = growth.num_files + limits.files - usage.num_files


class Watch:
    def __init__(self, server: SandboxServer) -> None:
        self._server = server
        self._schedules: dict[int, Schedule] = {}
        self._growth: dict[str, Growth] = {}

    def start(self) -> None:
        threading.Thread(target=self._run, name="sandbox-watch", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_TICK_S)
            self.tick()

    def tick(self) -> None:
        """Check each sandbox, and measure those that are due."""
        sandboxes = [sandbox for sandbox in self._server.sandboxes if sandbox.pid]
        for area in {str(sandbox.spec.area) for sandbox in sandboxes}:
            self._growth.setdefault(area, Growth()).measure(area)
        self._schedules = {sandbox.number: self._schedules.get(sandbox.number, Schedule()) for sandbox in sandboxes}
        for sandbox in sandboxes:
            if cause := self._excess(sandbox, self._schedules[sandbox.number]):
                self._server.stop(sandbox, cause)

    def _excess(self, sandbox: Sandbox, schedule: Schedule) -> ExitCause | None:
        """The limit that a sandbox is found to exceed, if any."""
        limits, now = sandbox.spec.limits, time.monotonic()
        if now >= schedule.memory_due:
            started = time.thread_time()
            if _is_out_of_memory(sandbox):
                return "memory"
            schedule.memory_due = now + _MEMORY_REST * (time.thread_time() - started)
        with contextlib.suppress(OSError):
            if sandbox.spec.log.lstat().st_size > limits.output_bytes:
                return "output"
        return self.measure(sandbox, schedule) if schedule.is_due(now, self._growth[str(sandbox.spec.area)]) else None

    def measure(self, sandbox: Sandbox, schedule: Schedule) -> ExitCause | None:
        """The limit on what it has written that it exceeds, if any; may take long."""
        limits, started, growth = sandbox.spec.limits, time.thread_time(), self._growth[str(sandbox.spec.area)]
        usage = usage_of(sandbox)
        schedule.measured(time.monotonic(), time.thread_time() - started, limits, usage, growth)
        if usage.num_files > limits.files:
            return "files"
        return "disk" if usage.num_bytes > limits.disk_bytes else None


def _is_out_of_memory(sandbox: Sandbox) -> bool:
    """The kernel holds a control group at its limit and ends processes for it; else what they take is added up."""
    if sandbox.cgroup is not None:
        return sandbox.cgroup.num_memory_kills() > 0
    return memory_of(sandbox.pid) > sandbox.spec.limits.memory_bytes


def usage_of(sandbox: Sandbox) -> Usage:
    """What a sandbox has written, whether or not it still has a name."""
    usage = Usage(sandbox.spec.limits.files)
    for place in (sandbox.spec.root, *(bind.source for bind in sandbox.spec.binds if bind.writable)):
        usage.add(place)
    usage.add_unlinked(sandbox.pid)
    return usage
