"""Wildcards of one path component as COPY has them: the rules of Go's filepath.Match, which are not those of a shell.

`*` and `?` match dots too, `**` is no more than `*`, a class is negated by `^` alone, and `\\` quotes.
"""

from __future__ import annotations

from dataclasses import dataclass

_STAR = "*"


class BadPattern(ValueError):
    """A class without an end, or a backslash with nothing after it."""


@dataclass(frozen=True)
class _One:
    """One character: within any of the ranges, or outside all of them."""

    ranges: tuple[tuple[str, str], ...] = ()
    negated: bool = False

    def fits(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges) != self.negated


_ANY = _One(negated=True)


def is_pattern(part: str) -> bool:
    escaped = False
    for character in part:
        if not escaped and character in "*?[":
            return True
        escaped = character == "\\" and not escaped
    return False


def matches(pattern: str, name: str) -> bool:
    """Raises BadPattern. Takes at most len(pattern) × len(name) steps."""
    tokens = _tokens(pattern)
    at = position = 0
    star: tuple[int, int] | None = None
    while position < len(name):
        token = tokens[at] if at < len(tokens) else None
        if token == _STAR:
            star, at = (at + 1, position), at + 1
        elif isinstance(token, _One) and token.fits(name[position]):
            at, position = at + 1, position + 1
        elif star:
            star = (star[0], star[1] + 1)
            at, position = star
        else:
            return False
    return all(token == _STAR for token in tokens[at:])


def _tokens(pattern: str) -> list[_One | str]:
    found: list[_One | str] = []
    at = 0
    while at < len(pattern):
        if pattern[at] == "*":
            found.append(_STAR)
            at += 1
        elif pattern[at] == "?":
            found.append(_ANY)
            at += 1
        elif pattern[at] == "[":
            one, at = _class(pattern, at + 1)
            found.append(one)
        else:
            character, at = _character(pattern, at)
            found.append(_One(((character, character),)))
    return found


def _class(pattern: str, at: int) -> tuple[_One, int]:
    negated = pattern[at : at + 1] == "^"
    at += negated
    ranges: list[tuple[str, str]] = []
    while not (ranges and pattern[at : at + 1] == "]"):
        low, at = _member(pattern, at)
        high = low
        if pattern[at : at + 1] == "-":
            high, at = _member(pattern, at + 1)
        ranges.append((low, high))
    return _One(tuple(ranges), negated), at + 1


def _member(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at : at + 1] in ("", "-", "]"):
        raise BadPattern(f"{pattern!r} has a class without an end, or an empty one")
    return _character(pattern, at)


def _character(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\":
        at += 1
        if at == len(pattern):
            raise BadPattern(f"{pattern!r} ends in a backslash")
    return pattern[at], at + 1
