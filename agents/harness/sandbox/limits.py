"""The limits that the kernel holds for each process of a sandbox."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from typing import Any

#: Bytes in POSIX message queues: they belong to no process.
_MESSAGE_QUEUES = 1 << 20


def apply(limits: dict[str, Any], pid: int = 0) -> None:
    """Bound a process (0: this one) and all that it will start. `limits` are those of a spec message."""
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_DATA, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["disk_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_MSGQUEUE, _MESSAGE_QUEUES),
    ):
        hard = resource.prlimit(pid, kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.prlimit(pid, kind, (bound, bound))


@contextlib.contextmanager
def as_user(identity: int | None) -> Iterator[None]:
    """Be this user, so that a program which is started meanwhile is that user for good. Only root's name is kept."""
    if identity is None:
        yield
        return
    os.setresgid(identity, identity, 0)
    os.setresuid(identity, identity, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)


@contextlib.contextmanager
def as_real_user(identity: int | None) -> Iterator[None]:
    """Be this user in name: the kernel lets a process bound those of its own real user. Root in a container may lack
    the privilege to bound those of others; all that root is allowed to do remains.
    """
    if identity is None:
        yield
        return
    os.setresgid(identity, -1, -1)
    os.setresuid(identity, -1, -1)
    try:
        yield
    finally:
        os.setresuid(0, -1, -1)
        os.setresgid(0, -1, -1)
