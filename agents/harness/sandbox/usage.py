"""What a sandbox takes of disk, files and, where no control group counts it, of memory."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

_DEEPEST = 200
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: What the kernel takes for one file in memory without content, and at most for what waits in one socket.
_INODE_BYTES = 1 << 10
_SOCKET_BYTES = 208 << 10
_OWN_MEMORY = re.compile(r"^(?:RssAnon|VmSwap|VmPTE):\s+(\d+) kB$", re.MULTILINE)
_SOCKETS = re.compile(r"^sockets: used (\d+)$", re.MULTILINE)


class Usage:
    """What a file tree takes on disk. The tree may change and mislead while it is looked at: links are not followed."""

    def __init__(self, max_files: int) -> None:
        self.num_bytes = self.num_files = 0
        self._max_files = max_files

    def add_unlinked(self, pid: int) -> None:
        """Files without a name that processes of the sandbox whose first one is `pid` hold open or mapped."""
        found: dict[tuple[int, int], int] = {}
        for place in processes_of(pid):
            for held in _held(place):
                if stat.S_ISREG(held.st_mode) and held.st_nlink == 0:
                    found[held.st_dev, held.st_ino] = held.st_blocks * 512
        self.num_files += len(found)
        self.num_bytes += sum(found.values())

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


def processes_of(pid: int) -> list[Path]:
    """Places in /proc of all processes in the sandbox whose first one is `pid`, as that sandbox numbers them."""
    table = Path("/proc", str(pid), "root", "proc")
    with contextlib.suppress(OSError):
        return [table / name for name in os.listdir(table) if name.isdigit()]
    return []


def _held(process: Path) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError):
        for name in os.listdir(process / "fd"):
            with contextlib.suppress(OSError):
                yield os.stat(process / "fd" / name)
    with contextlib.suppress(OSError):
        for line in (process / "maps").read_text(errors="replace").splitlines():
            if line.endswith(" (deleted)"):
                start, _, end = line.partition(" ")[0].partition("-")
                with contextlib.suppress(OSError):
                    yield os.stat(process / "map_files" / f"{int(start, 16):x}-{int(end, 16):x}")


def memory_of(pid: int) -> int:
    """Bytes of memory of all processes of a sandbox, of its files in memory and, at most, of its sockets."""
    total = 0
    for place in processes_of(pid):
        with contextlib.suppress(OSError):
            total += 1024 * sum(map(int, _OWN_MEMORY.findall((place / "status").read_text())))
    with contextlib.suppress(OSError):
        shared = os.statvfs(Path("/proc", str(pid), "root", "dev", "shm"))
        total += (shared.f_blocks - shared.f_bfree) * shared.f_frsize
        total += (shared.f_files - shared.f_ffree) * _INODE_BYTES
    with contextlib.suppress(OSError):
        if found := _SOCKETS.search(Path(f"/proc/{pid}/net/sockstat").read_text()):
            total += int(found[1]) * _SOCKET_BYTES
    return total
