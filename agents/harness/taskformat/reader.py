"""Typed access to one TOML table: every key is taken once, what is left is unknown: kept and warned about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agents.harness.taskformat.problems import BadTask, Lines, place

T = TypeVar("T")
Choice = TypeVar("Choice", bound=str | None)
#: The largest number in the settings of a task: three years in seconds; as MB, its bytes still fit 64 bits.
LARGEST = 100_000_000
Path = tuple[str | int, ...]


@dataclass
class Source:
    """The file that is read, and what is to be warned about."""

    file: str
    lines: Lines
    warnings: list[str] = field(default_factory=list)

    def bad(self, path: Path, reason: str) -> BadTask:
        return BadTask(self.file, f"{dotted(path)}: {reason}" if path else reason, self.lines.find(path))

    def warn(self, path: Path, reason: str) -> None:
        self.warnings.append(f"{place(self.file, self.lines.find(path))}: {dotted(path)}: {reason}")


def dotted(path: Path) -> str:
    return ".".join(str(part) for part in path)


class Table:
    def __init__(self, source: Source, values: dict[str, Any], path: Path = ()) -> None:
        self.source, self.path = source, path
        self._left = dict(values)

    def bad(self, key: str, reason: str) -> BadTask:
        return self.source.bad((*self.path, key), reason)

    def has(self, key: str) -> bool:
        return key in self._left

    def take(self, key: str, kind: str, fits: Callable[[Any], bool], default: T) -> T:
        if key not in self._left:
            return default
        value = self._left.pop(key)
        if not fits(value):
            raise self.bad(key, f"must be {kind}, not {value!r:.80}")
        return value

    def text(self, key: str, default: str = "") -> str:
        return self.take(key, "a string", lambda v: isinstance(v, str), default)

    def text_or_none(self, key: str) -> str | None:
        return self.take(key, "a string", lambda v: isinstance(v, str), None)

    def number(self, key: str, default: float) -> float:
        return float(self.take(key, f"a number from 0 to {LARGEST:,}", lambda v: _is_number(v) and v >= 0, default))

    def number_or_none(self, key: str) -> float | None:
        value = self.take(key, "a number above 0", lambda v: _is_number(v) and v > 0, None)
        return None if value is None else float(value)

    def whole(self, key: str, default: int | None = None) -> int | None:
        return self.take(
            key,
            f"a whole number from 0 to {LARGEST:,}",
            lambda v: isinstance(v, int) and _is_number(v) and v >= 0,
            default,
        )

    def flag(self, key: str) -> bool | None:
        return self.take(key, "true or false", lambda v: isinstance(v, bool), None)

    def choice(self, key: str, allowed: tuple[Choice, ...], default: Choice) -> Choice:
        return self.take(key, "one of " + ", ".join(map(str, allowed)), lambda v: v in allowed, default)

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(self.take(key, "a list of strings", lambda v: _is_list(v, str), ()))

    def env(self, key: str) -> dict[str, str]:
        fits = lambda v: isinstance(v, dict) and all(isinstance(item, str) for item in v.values())  # noqa: E731
        return dict(self.take(key, "a table of strings", fits, {}))

    def free(self, key: str) -> dict[str, Any]:
        return dict(self.take(key, "a table", lambda v: isinstance(v, dict), {}))

    def table(self, key: str) -> Table:
        return Table(self.source, self.free(key), (*self.path, key))

    def tables(self, key: str) -> list[Table]:
        none: list[dict[str, Any]] = []
        rows = self.take(key, "a list of tables", lambda v: _is_list(v, dict), none)
        return [Table(self.source, row, (*self.path, key, index)) for index, row in enumerate(rows)]

    def items(self, key: str) -> list[tuple[Path, Any]]:
        none: list[Any] = []
        rows = self.take(key, "a list", lambda v: isinstance(v, list), none)
        return [((*self.path, key, index), row) for index, row in enumerate(rows)]

    def rest(self) -> dict[str, Any]:
        """The keys that nothing took."""
        for key in self._left:
            self.source.warn((*self.path, key), "unknown key, kept and not used")
        return self._left


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST  # and so no NaN


def _is_list(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)
