"""A thread that samples what sandboxes use of disk, files, output and memory, and stops those over their limits.

The kernel bounds each process and each file exactly; this bounds their sum, within seconds.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from pathlib import Path

from agents.harness.sandbox.base import ExitCause
from agents.harness.sandbox.client import Sandbox, SandboxServer

_EVERY_S = 2.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    def __init__(self, server: SandboxServer) -> None:
        self._server = server

    def start(self) -> None:
        threading.Thread(target=self._run, name="sandbox-watch", daemon=True).start()

    def _run(self) -> None:
        pause = _EVERY_S
        while True:
            time.sleep(pause)
            started = time.monotonic()
            sandboxes = [sandbox for sandbox in self._server.sandboxes if sandbox.pid]
            memory = memory_by_namespace() if sandboxes else {}
            for sandbox in sandboxes:
                if cause := excess(sandbox, memory):
                    self._server.stop(sandbox, cause)
            # At most a fiftieth of the time is spent on looking.
            pause = max(_EVERY_S, 50 * (time.monotonic() - started))


def excess(sandbox: Sandbox, memory: dict[int, int]) -> ExitCause | None:
    """The limit that a sandbox exceeds, if any."""
    limits = sandbox.spec.limits
    if memory.get(sandbox.pid_namespace, 0) > limits.memory_bytes:
        return "memory"
    with contextlib.suppress(OSError):
        if sandbox.spec.log.lstat().st_size > limits.output_bytes:
            return "output"
    writable = [sandbox.spec.root, *(bind.source for bind in sandbox.spec.binds if bind.writable)]
    num_bytes = num_files = 0
    for place in writable:
        for size in sizes(place):
            num_bytes, num_files = num_bytes + size, num_files + 1
            if num_files > limits.files:
                return "files"
    return "disk" if num_bytes > limits.disk_bytes else None


def sizes(top: Path) -> list[int]:
    """Disk use of every file below, without following links and without leaving the file system."""
    found: list[int] = []
    pending = [str(top)]
    while pending:
        place = pending.pop()
        try:
            entries = os.scandir(place)
        except PermissionError:  # the sandbox closed it; it belongs to the same user
            with contextlib.suppress(OSError):
                os.chmod(place, 0o700, follow_symlinks=True)
            continue
        except OSError:
            continue
        with entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    found.append(entry.stat(follow_symlinks=False).st_blocks * 512)
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
    return found


def memory_by_namespace() -> dict[int, int]:
    """Resident bytes per PID namespace (inode number), over all processes that can be read."""
    total: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            match = re.search(r"\d+", os.readlink(f"/proc/{name}/ns/pid"))
            if match:
                pages = int(Path(f"/proc/{name}/statm").read_text().split()[1])
                total[int(match[0])] = total.get(int(match[0]), 0) + pages * _PAGE
    return total
