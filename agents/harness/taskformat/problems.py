"""What is wrong with a task, and where: file, line and reason."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*("[^"]*"|'[^']*'|[\w.-]+)\s*=""")


class BadTask(ValueError):
    """A task that is malformed or that this machine's backend cannot honour."""

    def __init__(self, file: str, reason: str, line: int | None = None) -> None:
        self.file, self.line, self.reason = file, line, reason
        super().__init__(f"{place(file, line)}: {reason}")


def place(file: str, line: int | None) -> str:
    return f"{file}:{line}" if line else file


class Lines:
    """Finds the line of a key in TOML text. Best effort: None where the text is written in an unusual way."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()

    def find(self, path: Sequence[str | int]) -> int | None:
        """`path` as in ("environment", "healthcheck", "retries") or ("steps", 0, "name")."""
        known = {full: number for number, full in self._walk()}
        wanted = tuple(str(part) for part in path)
        while wanted:
            if wanted in known:
                return known[wanted]
            wanted = wanted[:-1]
        return None

    def _walk(self) -> list[tuple[int, tuple[str, ...]]]:
        found: list[tuple[int, tuple[str, ...]]] = []
        header: tuple[str, ...] = ()
        counts: dict[tuple[str, ...], int] = {}
        for number, line in enumerate(self._lines, start=1):
            if match := _HEADER.match(line):
                name = _parts(match[2])
                if match[1] == "[[":
                    counts[name] = counts.get(name, -1) + 1
                header = _indexed(name, counts)
                found.append((number, header))
            elif match := _KEY.match(line):
                found.append((number, header + _parts(match[1])))
        return list(reversed(found))


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _indexed(name: tuple[str, ...], counts: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    for end in range(1, len(name) + 1):
        path += (name[end - 1],)
        if name[:end] in counts:
            path += (str(counts[name[:end]]),)
    return path
