"""Files below one directory, found as in a chroot: no `..` and no link leads out of it, and the kernel sees to that.

For trees whose names come from a task, or that a sandbox has written to. Needs openat2 (Linux 5.6).
"""

from __future__ import annotations

import ctypes
import errno
import os
import posixpath
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

_SYS_OPENAT2 = 437  # the same on every architecture
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_IN_ROOT = 0x10
_FOLDER = os.O_PATH | os.O_DIRECTORY
#: The kernel refuses a resolution during which something was renamed elsewhere: it is tried again.
_TRIES = 32

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class Beneath:
    """`/` of the paths that its methods take is `top`. They raise OSError."""

    def __init__(self, top: Path) -> None:
        self._top = os.open(top, _FOLDER | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._top)

    def open(self, path: str, flags: int, mode: int = 0) -> int:
        """As os.open."""
        how = _OpenHow(flags | os.O_CLOEXEC, mode, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
        for _ in range(_TRIES):
            name = ctypes.c_char_p(os.fsencode(path) or b".")
            number = _libc.syscall(
                ctypes.c_long(_SYS_OPENAT2), ctypes.c_int(self._top), name, ctypes.byref(how), ctypes.sizeof(how)
            )
            if number >= 0:
                return int(number)
            code = ctypes.get_errno()
            if code not in (errno.EAGAIN, errno.EINTR):
                break
        if code == errno.ENOSYS:
            raise OSError(code, "this kernel has no openat2: Gyre needs Linux 5.6 or later for tasks", path)
        raise OSError(code, os.strerror(code), path)

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """A descriptor of a directory, for functions with `dir_fd`."""
        number = self.open(path, _FOLDER)
        try:
            yield number
        finally:
            os.close(number)

    def is_dir(self, path: str) -> bool:
        try:
            with self.folder(path):
                return True
        except OSError:
            return False

    def real(self, path: str) -> Path | None:
        """Where on the host the file or directory lies that `path` leads to, or None."""
        try:
            number = self.open(path, os.O_PATH)
        except OSError:
            return None
        try:
            return Path(os.readlink(f"/proc/self/fd/{number}"))
        finally:
            os.close(number)

    def make_dirs(self, path: str) -> None:
        """With its parents; what is there stays."""
        missing = []
        while not self.is_dir(path):
            path, name = posixpath.split(path.rstrip("/"))
            if not name:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            missing.append(name)
        for name in reversed(missing):
            with self.folder(path) as parent:
                os.mkdir(name, 0o755, dir_fd=parent)
            path = posixpath.join(path, name)

    @contextmanager
    def _fresh(self, path: str) -> Iterator[tuple[int, str]]:
        """The parent of a new file, and its name there. An older file or link of that name is gone."""
        place, name = posixpath.split(path)
        self.make_dirs(place)
        with self.folder(place) as parent:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=parent)
            yield parent, name

    def put_file(self, path: str, content: BinaryIO, mode: int) -> None:
        with self._fresh(path) as (parent, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, 0o600, dir_fd=parent), "wb") as file:
                shutil.copyfileobj(content, file)
                os.fchmod(file.fileno(), mode)

    def put_link(self, path: str, target: str) -> None:
        with self._fresh(path) as (parent, name):
            os.symlink(target, name, dir_fd=parent)
