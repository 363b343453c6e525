"""A thread that samples what sandboxes use of disk, files, output and memory, and stops those over their limits.

The kernel bounds each process and each file exactly; this bounds their sum, within seconds.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import time
from pathlib import Path

from agents.harness.sandbox.base import ExitCause
from agents.harness.sandbox.client import Sandbox, SandboxServer

_EVERY_S = 2.0
_DEEPEST = 200
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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
    usage = Usage(limits.files)
    for place in (sandbox.spec.root, *(bind.source for bind in sandbox.spec.binds if bind.writable)):
        usage.add(place)
    if usage.num_files > limits.files:
        return "files"
    return "disk" if usage.num_bytes > limits.disk_bytes else None


class Usage:
    """What a file tree takes on disk. The tree may change and mislead while it is looked at: links are not followed."""

    def __init__(self, max_files: int) -> None:
        self.num_bytes = self.num_files = 0
        self._max_files = max_files

    def add(self, top: Path) -> None:
        with contextlib.suppress(OSError):
            self._add(os.open(top, _DIRECTORY), 0)

    def _add(self, number: int, depth: int) -> None:
        try:
            folders = []
            with os.scandir(number) as entries:
                for entry in entries:
                    self.num_files += 1
                    if self.num_files > self._max_files:
                        return
                    with contextlib.suppress(OSError):
                        self.num_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.name)
            if depth > _DEEPEST and folders:
                self.num_files = self._max_files + 1
                return
            for name in folders:
                with contextlib.suppress(OSError):
                    self._add(_open_folder(name, number), depth + 1)
        finally:
            os.close(number)


def _open_folder(name: str, parent: int) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:  # closed from inside, where its owner is the same user
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            place, mode = f"/proc/self/fd/{handle}", stat.S_IMODE(os.fstat(handle).st_mode)
            os.chmod(place, 0o700)
            try:
                return os.open(name, _DIRECTORY, dir_fd=parent)
            finally:
                os.chmod(place, mode)
        finally:
            os.close(handle)


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
