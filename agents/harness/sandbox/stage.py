"""Host paths as bubblewrap may reach them.

As root, bubblewrap runs as a user who may not pass through directories of mode 0700 (a home, a clone, `GYRE_HOME`).
Their permissions are never changed: the sandbox server shows what is needed at an open place of its own mount table.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from pathlib import Path

from agents.harness.sandbox import namespaces


class Direct:
    """Not root: bubblewrap is the same user as the server and reaches what the server reaches."""

    def show(self, source: str) -> str:
        return source

    def lasting(self, source: str) -> str:
        return source

    def hide(self, shown: str) -> None:
        pass


class Staged:
    """Root: sources are bound below a private tmpfs."""

    def __init__(self) -> None:
        namespaces.private_mounts()
        self._base = Path(tempfile.mkdtemp(prefix="gyre-stage-"))
        namespaces.mount_tmpfs(self._base, "mode=0711,size=1m")
        self._numbers = itertools.count()
        self._lasting: dict[str, str] = {}

    def show(self, source: str) -> str:
        """Bind for one sandbox; `hide` it afterwards."""
        place = self._base / str(next(self._numbers))
        if Path(source).is_dir():
            place.mkdir()
        else:
            place.touch()
        namespaces.bind(Path(source), place)
        return str(place)

    def lasting(self, source: str) -> str:
        """Bind once and keep: system parts that every sandbox sees."""
        if source not in self._lasting:
            self._lasting[source] = self.show(source)
        return self._lasting[source]

    def hide(self, shown: str) -> None:
        place = Path(shown)
        namespaces.detach(place)
        with contextlib.suppress(FileNotFoundError):
            place.rmdir() if place.is_dir() else place.unlink()
