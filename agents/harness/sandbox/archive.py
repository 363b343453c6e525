"""An attempt's directory as one file, and back: what another assessment works on.

The host reads a tree that an agent has made. No process of it runs any more, links are stored and never followed, and
the archive lies where no sandbox can reach it. What its owner may not read is opened for the moment of reading.
"""

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path

import zstandard

from agents.harness.sandbox.workspace import Workspace

#: Made by an evaluator, or on the way to one.
_LEFT_OUT = frozenset({"verify", "transfer"})
_LEVEL = 3


class TooLarge(Exception):
    """The tree holds more than the limit. `num_bytes`: how much it holds."""

    def __init__(self, num_bytes: int) -> None:
        super().__init__(f"{num_bytes / 1e6:,.1f} MB")
        self.num_bytes = num_bytes


def pack(workspace: Workspace, target: Path, limit_bytes: float) -> int:
    """Write the workspace's files to `target`, all or nothing. Returns the archive's size in bytes.

    Raises TooLarge, OSError.
    """
    tree = _Tree(workspace.path)
    fresh = target.with_name(target.name + ".new")
    try:
        if tree.num_bytes > limit_bytes:
            raise TooLarge(tree.num_bytes)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh.unlink(missing_ok=True)
        with (
            fresh.open("xb") as file,
            zstandard.ZstdCompressor(level=_LEVEL).stream_writer(file, closefd=False) as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            tree.write(archive)
        fresh.replace(target)
    finally:
        tree.close()
        fresh.unlink(missing_ok=True)
    return target.stat().st_size


def unpack(source: Path, workspace: Workspace) -> None:
    """Make the workspace what it was when it was packed. Raises OSError, tarfile.TarError, zstandard.ZstdError."""
    workspace.begin()
    with (
        source.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        archive.extraction_filter = lambda member, _path: member  # the archive is ours
        archive.extractall(workspace.path, numeric_owner=True)


class _Tree:
    """The files to pack, parents first. A path whose owner may not read it has its mode back after `close`."""

    def __init__(self, top: Path) -> None:
        self._top = os.fspath(top)
        self._found: list[tuple[str, os.stat_result]] = []
        self._modes: dict[str, int] = {}
        self._first_names: dict[tuple[int, int], str] = {}
        self.num_bytes = 0
        waiting = [name for name in sorted(os.listdir(top), reverse=True) if name not in _LEFT_OUT]
        try:
            while waiting:
                waiting += self._take(waiting.pop())
        except OSError:
            self.close()
            raise

    def _take(self, name: str) -> list[str]:
        """Note one path, by its name below the top; returns what a directory holds."""
        path = f"{self._top}/{name}"
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            self._found.append((name, found))
            self._open(path, found.st_mode, 0o500)
            return [f"{name}/{child}" for child in sorted(os.listdir(path), reverse=True)]
        if stat.S_ISREG(found.st_mode):
            self.num_bytes += found.st_size
            self._open(path, found.st_mode, 0o400)
            self._found.append((name, found))
        elif stat.S_ISLNK(found.st_mode) or stat.S_ISFIFO(found.st_mode):
            self._found.append((name, found))
        return []

    def _open(self, path: str, mode: int, needed: int) -> None:
        if mode & needed != needed and os.geteuid() != 0:
            self._modes[path] = stat.S_IMODE(mode)
            os.chmod(path, stat.S_IMODE(mode) | needed)

    def write(self, archive: tarfile.TarFile) -> None:
        for name, found in self._found:
            member = self._member(name, found)
            if member.isreg():
                with open(f"{self._top}/{name}", "rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)

    def _member(self, name: str, found: os.stat_result) -> tarfile.TarInfo:
        """As tarfile would describe it, but without the names of its owners, which it looks up for every path."""
        member = tarfile.TarInfo(name)
        member.mode, member.mtime = stat.S_IMODE(found.st_mode), found.st_mtime
        member.uid, member.gid = found.st_uid, found.st_gid
        if stat.S_ISDIR(found.st_mode):
            member.type = tarfile.DIRTYPE
        elif stat.S_ISLNK(found.st_mode):
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(f"{self._top}/{name}")
        elif stat.S_ISFIFO(found.st_mode):
            member.type = tarfile.FIFOTYPE
        elif (first := self._first_names.setdefault((found.st_dev, found.st_ino), name)) != name:
            member.type, member.linkname = tarfile.LNKTYPE, first
        else:
            member.size = found.st_size
        return member

    def close(self) -> None:
        for path, mode in reversed(self._modes.items()):
            os.chmod(path, mode)
