"""Seats: what is made ready for sandboxes that are still to come.

To move a process into a control group takes the kernel long, however little it costs. So a few groups are made ahead,
each with a shell in it that waits to be told which bubblewrap to become. Those of sandboxes with a log of their own are
made when they are wanted: the shell is an unprivileged user from its start, and could not open the log.
"""

from __future__ import annotations

import itertools
import os
import shlex
import signal
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agents.harness.sandbox import bubblewrap, limits, syscalls
from agents.harness.sandbox.base import MARKS
from agents.harness.sandbox.cgroups import Cgroup, Groups
from agents.harness.sandbox.inside import Program

_NUM_READY = 3
_GROUP_FD = 3
_NULL = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Seat:
    """A shell that waits, its pipes, and its group."""

    pid: int
    cgroup: Cgroup | None
    script: int
    hold: int
    go: int
    info: int
    ready: int

    def become(self, command: list[str], entered: bool) -> None:
        """Let the shell become `command`, with the hold as its input where the sandbox is entered."""
        source = f"&{bubblewrap.HOLD_FD}" if entered else "/dev/null"
        line = f"exec {shlex.join(command)} <{source} 2>&1 {bubblewrap.HOLD_FD}<&- {_GROUP_FD}>&-\n"
        written = memoryview(line.encode())
        while written:
            written = written[os.write(self.script, written) :]

    def discard(self) -> None:
        """Close what it writes to; who waits for it ends by that. The pipes that it reads are those of its taker."""
        for number in (self.script, self.hold, self.go):
            os.close(number)


class Seats:
    """The seats of one server. Raises SandboxError where no system call filter can be made."""

    def __init__(self, groups: Groups | None, identity: int | None, programs: dict[str, Program]) -> None:
        self.groups, self.identity = groups, identity
        self.programs = programs
        self._numbers = itertools.count(1)
        self._free: deque[Seat] = deque()
        self._makes_ahead = bool(programs)

    @cached_property
    def filter(self) -> bytes:
        """The BPF program of all sandboxes."""
        return syscalls.program(memory_is_counted=self.groups is not None)

    @cached_property
    def _filter_file(self) -> str:
        """Opened anew for each bubblewrap, which reads it from where the descriptor stands."""
        number = os.memfd_create("filter")
        os.write(number, self.filter)
        return f"/proc/self/fd/{number}"

    def take(self, wanted: dict[str, Any], log: int | None) -> Seat:
        """A seat for a sandbox with the limits that are wanted; `log` takes its output unless it is entered."""
        self._makes_ahead |= log is None
        seat = self._free.popleft() if log is None and self._free else self._make(log)
        if self.groups and seat.cgroup:
            self.groups.limit(seat.cgroup, wanted)
        return seat

    def fill(self) -> bool:
        """Make one seat more ready; whether others are still wanted."""
        if not self._makes_ahead or len(self._free) >= _NUM_READY:
            return False
        self._free.append(self._make(None))
        return True

    def _make(self, log: int | None) -> Seat:
        cgroup = self.groups.create(next(self._numbers)) if self.groups else None
        script_read, script_write = os.pipe()
        hold_read, hold_write = os.pipe()
        go_read, go_write = os.pipe()
        info_read, info_write = os.pipe()
        ready_read, ready_write = os.pipe()
        rules = os.open(self._filter_file, os.O_RDONLY | os.O_CLOEXEC)
        group = os.open(cgroup.procs, os.O_WRONLY | os.O_CLOEXEC) if cgroup else _NULL
        output = ready_write if log is None else log
        targets = {
            0: script_read, 1: output, 2: output, _GROUP_FD: group, bubblewrap.HOLD_FD: hold_read,
            bubblewrap.GO_FD: go_read, bubblewrap.INFO_FD: info_write, bubblewrap.READY_FD: ready_write,
            bubblewrap.FILTER_FD: rules,
        }  # fmt: skip
        try:
            with limits.as_user(self.identity):
                pid = _spawn(["/bin/sh"], targets)
        finally:
            for number in {script_read, hold_read, go_read, info_write, ready_write, rules, group} - {_NULL}:
                os.close(number)
        os.write(script_write, f"echo 0 >&{_GROUP_FD} || exit\n".encode())
        return Seat(pid, cgroup, script_write, hold_write, go_write, info_read, ready_read)


def _spawn(command: list[str], targets: dict[int, int]) -> int:
    """Start a program with descriptors (by number: source)."""
    # By way of numbers above every source and target, so that none is overwritten before it is copied.
    high = max(*targets.values(), *targets) + 1
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_DUP2, source, high + target) for target, source in targets.items()
    ]
    actions += [(os.POSIX_SPAWN_DUP2, high + target, target) for target in targets]
    actions += [(os.POSIX_SPAWN_CLOSE, high + target) for target in targets]
    environment = {"PATH": _PATH, **{mark: os.environ[mark] for mark in MARKS if mark in os.environ}}
    return os.posix_spawn(command[0], command, environment, file_actions=actions, setsigdef=_DEFAULT_SIGNALS)
