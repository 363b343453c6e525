"""How much room is left on the file systems that Gyre writes to: enough, low or critical.

Low: nothing new begins. Critical: nothing is recorded, and what runs is given up, while the database can still write.
A level ends only at twice the room at which it began, so that runs do not stop and go at the edge. No Django here: the
proxy asks too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

MIN_FREE_VARIABLE = "GYRE_MIN_FREE_MB"
DEFAULT_MIN_FREE_MB = 256
#: A file system without free file entries (inodes) is as full as one without free bytes.
MIN_FREE_FILES = 2000
#: Critical is so much less than low.
CRITICAL_PART = 2
#: What the reserve holds back is so much less than low.
RESERVE_PART = 8
#: A level ends at so many times the room at which it began.
HYSTERESIS = 2


class Level(IntEnum):
    ENOUGH = 0
    LOW = 1
    CRITICAL = 2


@dataclass(frozen=True)
class Free:
    """What is free at `path`. `files` is None where the file system has no limit on their number."""

    path: Path
    num_bytes: int
    files: int | None

    def is_below(self, num_bytes: float, files: float) -> bool:
        return self.num_bytes < num_bytes or (self.files is not None and self.files < files)


def min_free_bytes() -> int:
    """Below so much no execution starts: `GYRE_MIN_FREE_MB`. Raises ValueError for what is not a number above 0."""
    raw = os.environ.get(MIN_FREE_VARIABLE, "") or str(DEFAULT_MIN_FREE_MB)
    if not (raw.isascii() and raw.isdigit() and 0 < int(raw) < 1 << 40):
        raise ValueError(f"{MIN_FREE_VARIABLE}={raw!r} is not a whole number of megabytes above 0")
    return int(raw) << 20


def free_at(home: Path) -> Iterator[Free]:
    """What is free on each file system: that of `home`, and that of the embedded Postgres where it is another."""
    seen = set()
    for path in (home, home / "postgres"):
        existing = next(parent for parent in (path, *path.parents) if parent.exists())
        device = existing.stat().st_dev
        if device not in seen:
            seen.add(device)
            found = os.statvfs(existing)
            yield Free(existing, found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)


def level_of(free: Free, min_bytes: int, before: Level) -> Level:
    """The level at `free`, given that it was at `before`."""
    for level, part in ((Level.CRITICAL, CRITICAL_PART), (Level.LOW, 1)):
        factor = (HYSTERESIS if before >= level else 1) / part
        if free.is_below(min_bytes * factor, MIN_FREE_FILES * factor):
            return level
    return Level.ENOUGH


@dataclass
class Gauge:
    """The room below `home`, measured anew by each `measure`. `message` says what to do unless there is enough."""

    home: Path
    min_bytes: int = field(default_factory=min_free_bytes)
    level: Level = Level.ENOUGH
    message: str = ""

    def measure(self) -> Level:
        levels = [(level_of(free, self.min_bytes, self.level), free) for free in free_at(self.home)]
        self.level, worst = max(levels, key=lambda found: (found[0], -found[1].num_bytes))
        self.message = self._said(worst) if self.level else ""
        return self.level

    def _said(self, free: Free) -> str:
        files = "" if free.files is None or free.files >= HYSTERESIS * MIN_FREE_FILES else f" and {free.files} files"
        wanted = HYSTERESIS * self.min_bytes >> 20
        return (
            f"the disk is full: {free.num_bytes >> 20} MB{files} free at {free.path}; free some space: "
            f"work goes on by itself once {wanted} MB{f' and {HYSTERESIS * MIN_FREE_FILES} files' if files else ''} "
            "are free"
        )


@dataclass(frozen=True)
class Reserve:
    """A file beside the embedded database. It is let go when the disk is full, so that the pause can be written."""

    home: Path
    num_bytes: int

    @property
    def path(self) -> Path:
        return self.home / "postgres" / "reserve"

    def hold(self) -> None:
        """Take the room, unless it is held already or the database is elsewhere."""
        if not self.path.parent.is_dir():
            return
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, self.num_bytes)
        finally:
            os.close(file)

    def let_go(self) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.path.unlink()
