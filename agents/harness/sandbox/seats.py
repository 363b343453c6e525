"""Seats: what is made ready for sandboxes that are still to come.

To move a process into a control group takes the kernel long, however little it costs. So a few groups are made ahead,
each with a shell in it that waits to be told which bubblewrap to become.
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

    def become(self, command: list[str], log: int | None) -> None:
        """Let the shell become `command`, with output to `log`, or to the ready pipe and with the hold as input."""
        source = "/dev/null" if log is not None else f"&{bubblewrap.HOLD_FD}"
        target = f">>/proc/{os.getpid()}/fd/{log}" if log is not None else ""
        line = f"exec {shlex.join(command)} <{source} {target} 2>&1 {bubblewrap.HOLD_FD}<&- {_GROUP_FD}>&-\n"
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
        #: By whether a child enters them. Only the kinds that were wanted before are made ahead.
        self._free: dict[bool, deque[Seat]] = {bool(programs): deque()}

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

    def take(self, wanted: dict[str, Any], entered: bool) -> Seat:
        """A seat for a sandbox with the limits that are wanted.

        The shell in a seat that is entered is the host identity already; the other has a log to open.
        """
        free = self._free.setdefault(entered, deque())
        seat = free.popleft() if free else self._make(entered)
        if self.groups and seat.cgroup:
            self.groups.limit(seat.cgroup, wanted)
        return seat

    def fill(self) -> bool:
        """Make one seat more ready; whether others are still wanted."""
        for entered, free in self._free.items():
            if len(free) < _NUM_READY:
                free.append(self._make(entered))
                return True
        return False

    def _make(self, entered: bool) -> Seat:
        cgroup = self.groups.create(next(self._numbers)) if self.groups else None
        script_read, script_write = os.pipe()
        hold_read, hold_write = os.pipe()
        go_read, go_write = os.pipe()
        info_read, info_write = os.pipe()
        ready_read, ready_write = os.pipe()
        rules = os.open(self._filter_file, os.O_RDONLY | os.O_CLOEXEC)
        group = os.open(cgroup.procs, os.O_WRONLY | os.O_CLOEXEC) if cgroup else _NULL
        targets = {
            0: script_read, 1: ready_write, 2: ready_write, _GROUP_FD: group, bubblewrap.HOLD_FD: hold_read,
            bubblewrap.GO_FD: go_read, bubblewrap.INFO_FD: info_write, bubblewrap.READY_FD: ready_write,
            bubblewrap.FILTER_FD: rules,
        }  # fmt: skip
        try:
            with limits.as_user(self.identity if entered else None):
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
