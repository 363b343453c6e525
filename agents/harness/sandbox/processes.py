"""Recognise processes across restarts: by number and start, or by a mark in the environment they were started with.

A number alone may belong to another process by now.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

_KILL_TIMEOUT_S = 5.0
_CLEAN_SCANS = 3
#: PF_EXITING and PF_KTHREAD: these have no environment any more, or never.
_EXITING_OR_KERNEL = 0x4 | 0x20_0000


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def is_running(pid: int, start: int) -> bool:
    """Whether the process that had this number and start runs still; a dead one that nobody waited for does not."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[19]) == start and fields[0] not in "ZX"
    return False


def kill_if_same(pid: int, start: int) -> bool:
    """SIGKILL the process that had this number and start. Returns whether it was still there."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if start_ticks(pid) != start:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return True
    finally:
        os.close(pidfd)


def marked(variable: str, value: str) -> list[int]:
    """Pids of every live process that was started with `variable=value` in its environment."""
    return _scan(variable, value)[0]


def kill_marked(variable: str, value: str, spared: Collection[int] = ()) -> int:
    """SIGKILL them until none is left, also what they start meanwhile; returns how many there were.

    One scan is not enough: a process can be born while it goes on, and its parent be gone before its turn comes.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    num_clean_scans = 0
    while num_clean_scans < _CLEAN_SCANS and time.monotonic() < deadline:
        found, unsure = _scan(variable, value)
        pids = set(found) - set(spared)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= pids
        num_clean_scans = 0 if pids or unsure else num_clean_scans + 1
        time.sleep(0.01)
    return len(killed)


def _scan(variable: str, value: str) -> tuple[list[int], bool]:
    """Processes with the mark, and whether there are some whose environment cannot be seen yet."""
    sign = f"{variable}={value}".encode()
    found, unsure = [], False
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{name}/environ").read_bytes()
                if sign in environment.split(b"\0"):
                    found.append(int(name))
                unsure = unsure or (not environment and _is_in_exec(name))
    return found, unsure


def _is_in_exec(pid: str) -> bool:
    """Whether a process is about to get the environment of its new program (proc(5), stat: flags and env_end)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0] not in "ZX" and not int(fields[6]) & _EXITING_OR_KERNEL and int(fields[48]) == 0
