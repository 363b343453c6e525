"""A build context: which of its files a COPY means, and where each of them goes. Read as BuildKit reads it."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from e2b_dockerfile_utils import PatternMatcher

from agents.harness.beneath import Beneath
from agents.harness.taskformat import globs, paths
from agents.harness.taskformat.dockerfile import Copy
from agents.harness.taskformat.problems import BadTask

#: The first that is there counts.
_IGNORE_FILES = ("Dockerfile.dockerignore", ".dockerignore")


@dataclass(frozen=True)
class Source:
    """What one name of a COPY leads to: links have been followed, and none leads out of the context."""

    name: str
    path: Path
    relative: str


@dataclass(frozen=True)
class Placed:
    """One file, link or directory of the host, or a text, and where it goes inside the sandbox."""

    dest: str
    path: Path | None = None
    text: str = ""


class BuildContext:
    """Raises BadTask. `shown`: how the directory is named in messages."""

    def __init__(self, folder: Path, shown: str) -> None:
        self._folder = folder.resolve()
        self._shown = shown
        self._ignored = PatternMatcher([])
        for name in _IGNORE_FILES:
            if (folder / name).is_file():
                self._ignored = self._read_ignored(folder / name, f"{shown}/{name}")
                break

    def _read_ignored(self, path: Path, shown: str) -> PatternMatcher:
        try:
            return PatternMatcher(path.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines())
        except (OSError, ValueError) as error:
            raise BadTask(shown, f"cannot be read: {error}") from error

    def placed(self, copy: Copy, is_dir: bool) -> Iterator[Placed]:
        """What a COPY puts where. `is_dir`: its destination is a directory already."""
        dest = copy.dest.rstrip("/") or "/"
        into = copy.into_dir or is_dir or dest == "/"
        for name, text in copy.inline:
            yield Placed(posixpath.join(dest, name) if into else dest, text=text)
        for pattern in copy.sources:
            for source in self.sources(pattern, copy.line):
                if source.path.is_dir():
                    yield Placed(dest, source.path)
                    yield from self._tree(source, dest)
                else:
                    yield Placed(posixpath.join(dest, source.name) if into else dest, source.path)

    def sources(self, pattern: str, line: int) -> list[Source]:
        """A name without wildcards must be there; a pattern may match nothing."""
        names = paths.inside(pattern).strip("/")
        found = [""]
        with Beneath(self._folder) as tree:
            for part in names.split("/") if names else ():
                found = [posixpath.join(name, each) for name in found for each in self._part(tree, name, part, line)]
            kept = [
                Source(posixpath.basename(name), real, str(real.relative_to(self._folder)))
                for name in found
                if (real := tree.real("/" + name)) and (real.is_dir() or not self._ignored.matches(name))
            ]
        if not kept and not any(map(globs.is_pattern, names.split("/"))):
            raise BadTask(f"{self._shown}/Dockerfile", f"COPY {pattern}: no such file", line)
        for source in kept:
            _check_kind(source.path, f"{self._shown}/{source.relative}")
        return kept

    def _part(self, tree: Beneath, folder: str, part: str, line: int) -> list[str]:
        if not globs.is_pattern(part):
            return [part]
        real = tree.real("/" + folder)
        if real is None or not real.is_dir():
            return []
        try:
            return sorted(name for name in os.listdir(real) if globs.matches(part, name))
        except globs.BadPattern as error:
            raise BadTask(f"{self._shown}/Dockerfile", f"COPY: the pattern {error}", line) from error

    def _tree(self, source: Source, dest: str) -> Iterator[Placed]:
        for folder, folders, files in os.walk(source.path, onerror=_raise):
            folders.sort()
            for name in sorted(files + folders):
                path = Path(folder, name)
                if self._ignored.matches(path.relative_to(self._folder).as_posix()):
                    continue
                _check_kind(path, f"{self._shown}/{path.relative_to(self._folder)}")
                yield Placed(posixpath.join(dest, path.relative_to(source.path).as_posix()), path)


def _raise(error: OSError) -> None:
    raise error


def _check_kind(path: Path, shown: str) -> None:
    if not (path.is_symlink() or path.is_file() or path.is_dir()):
        raise BadTask(shown, "is neither a file, a directory nor a link")
