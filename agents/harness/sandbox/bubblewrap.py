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
from agents.harness.sandbox.base import MARKS, SandboxError

#: Numbers under which bubblewrap and the first command find their pipes.
INFO_FD = 7
READY_FD = 8

_SYSTEM_DIRS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")

#: Says that the sandbox stands and then holds it open until its standard input ends.
HOLD = ("/bin/sh", "-c", f"echo ready >&{READY_FD}; read -r line")
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
    # `--dev` with pseudo terminals of the sandbox's own: some harnesses run every command in one.
    return (*args, "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm")


def arguments(spec: dict[str, Any], root: str, binds: list[tuple[str, str, bool]]) -> list[str]:
    """bwrap and its options up to the command, for a spec message whose sources are `root` and `binds`."""
    uid = str(spec["uid"])
    args = [executable(), "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    args += ["--hostname", "sandbox", "--uid", uid, "--gid", uid, "--die-with-parent", "--new-session"]
    args += ["--info-fd", str(INFO_FD), "--bind", root, "/", *_system()]
    for mark in MARKS:
        args += ["--unsetenv", mark]
    for source, dest, writable in binds:
        args += ["--bind" if writable else "--ro-bind", source, dest]
    return [*args, "--chdir", spec["workdir"], "--"]


def limited(command: list[str], limits: dict[str, Any]) -> list[str]:
    """The command under its limits; `prlimit` runs inside, where the count of processes is the sandbox's own."""
    return [
        "/usr/bin/prlimit",
        "--core=0",
        f"--nproc={limits['processes']}",
        f"--data={limits['memory_bytes']}",
        f"--fsize={limits['disk_bytes']}",
        f"--nofile={limits['open_files']}",
        "--",
        *command,
    ]
