"""Host paths as bubblewrap may reach them.

As root, bubblewrap runs as a user who may not pass through directories of mode 0700 (a home, a clone, `GYRE_HOME`).
Their permissions are never changed: the sandbox server shows what is needed at an open place of its own mount table.
That table stays short, whatever number of sandboxes stands: each new one copies it and reads it many times.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from agents.harness.sandbox import namespaces


class Direct:
    """Not root: bubblewrap is the same user as the server and reaches what the server reaches."""

    def show(self, source: str) -> str:
        return source


class Staged:
    """Root: sources are bound below a private tmpfs, at a place where only root can make directories."""

    def __init__(self, base: Path = Path("/run/gyre-stage")) -> None:
        namespaces.private_mounts()
        base.mkdir(mode=0o755, exist_ok=True)
        namespaces.mount_tmpfs(base, "mode=0711,size=1m")
        self._base = base
        self._numbers = itertools.count()
        self._shown: dict[tuple[str, int, int], str] = {}

    def show(self, source: str) -> str:
        """Where the directory is seen. Raises OSError when there is none."""
        status = os.stat(source)
        key = (source, status.st_dev, status.st_ino)  # a directory made anew is another one
        if key not in self._shown:
            place = self._base / str(next(self._numbers))
            place.mkdir()
            namespaces.bind(Path(source), place)
            self._shown[key] = str(place)
        return self._shown[key]
