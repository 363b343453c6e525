"""Recognise processes across restarts: a number alone may belong to another process by now."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


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
