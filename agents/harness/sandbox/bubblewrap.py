"""The command line of bubblewrap for one sandbox.

Bubblewrap always runs as an unprivileged user and makes a user namespace, also where Gyre runs as root: so there is
one way in which sandboxes are made, and a limit on processes counts those of this sandbox only.
"""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

from agents.core.outcome import Reason
from agents.harness.sandbox.base import SandboxError

#: Numbers under which bubblewrap and the first command find their pipes.
HOLD_FD = 5
GO_FD = 6
INFO_FD = 7
READY_FD = 8
FILTER_FD = 9

_SYSTEM_DIRS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")

#: Says that the sandbox stands and then holds it open until its standard input ends.
HOLD = ("/bin/sh", "-c", f"echo ready >&{READY_FD}; exec {READY_FD}>&- {INFO_FD}>&-; read -r line")
#: Says that the sandbox stands and then becomes the command.
ANNOUNCE = ("/bin/sh", "-c", f'echo ready >&{READY_FD}; exec {READY_FD}>&- {INFO_FD}>&-; exec "$@"', "sh")


@cache
def executable() -> str:
    path = shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")
    if path is None:
        raise SandboxError(Reason.SANDBOX_NEVER_HEALTHY, "bwrap is not installed: apt-get install bubblewrap")
    return path


@cache
def _system() -> tuple[str, ...]:
    args: list[str] = []
    # Mounts also where the host has links: what runs later must not find them replaced.
    for name in _SYSTEM_DIRS:
        path = Path("/", name)
        if path.is_dir():
            args += ["--ro-bind", str(path.resolve()), f"/{name}"]
    return (*args, "--proc", "/proc")


def _devices(limits: dict[str, Any], memory_is_counted: bool) -> list[str]:
    """`/dev` with pseudo terminals of the sandbox's own: some harnesses run every command in one.

    What is written into it would take memory without a bound: all of it but the sized `/dev/shm` is read-only.
    """
    args = ["--dev", "/dev"]
    if not memory_is_counted:
        # Reads the same, and cannot be mapped: shared mappings of /dev/zero are memory that belongs to no process.
        args += ["--dev-bind", "/dev/full", "/dev/zero"]
    size = str(limits["memory_bytes"] // 2)
    return [*args, "--perms", "1777", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]


def arguments(
    spec: dict[str, Any], root: str, binds: list[tuple[str, str, bool]], memory_is_counted: bool
) -> list[str]:
    """bwrap and its options up to the command, for a spec message whose sources are `root` and `binds`.

    It waits on GO_FD before it starts the first process of the sandbox: until then limits are set from outside.
    """
    uid = str(spec["uid"])
    args = [executable(), "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    args += ["--hostname", "sandbox", "--uid", uid, "--gid", uid, "--die-with-parent", "--new-session"]
    args += ["--info-fd", str(INFO_FD), "--block-fd", str(GO_FD), "--seccomp", str(FILTER_FD)]
    args += ["--bind", root, "/", *_system(), *_devices(spec["limits"], memory_is_counted)]
    args += ["--clearenv"]
    for name, value in spec["env"].items():
        args += ["--setenv", name, value]
    for source, dest, writable in binds:
        args += ["--bind" if writable else "--ro-bind", source, dest]
    return [*args, "--chdir", spec["workdir"], "--"]
