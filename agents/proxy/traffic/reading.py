"""Captured traffic, line by line.

A capture has one JSON object per line: `{"kind": "request", "seq", "method", "path", "headers", "body", …}` and
`{"kind": "response", "seq", "status", "reply", …}`, in the order in which they happened. Responses may be missing;
`order` finds the order of a file whose lines stand in another. `t` is the time of a line in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

#: Statuses from here on are failures.
FAILED = 400


class NotReadable(Exception):
    """A file that cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `headers` have lower-case names; `body` is None when there is none or when it is no object."""

    line: int
    seq: int
    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any] | None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to request `seq`. `reply` is None when it brought none."""

    line: int
    seq: int
    status: int
    reply: dict[str, Any] | None
    at: float | None = None

    @property
    def has_failed(self) -> bool:
        return self.status >= FAILED or self.reply is None


@dataclass(frozen=True, slots=True)
class BadLine:
    line: int
    why: str


Line = Request | Response | BadLine


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands: its number, and the file's bytes from `start` to `end`."""

    line: int
    start: int
    end: int


def read(path: Path) -> Iterator[tuple[Line, int]]:
    """(line, bytes read so far) for each line that is not empty. Raises NotReadable."""
    num_bytes = 0
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                num_bytes += len(raw)
                if raw.strip():
                    yield _line(number, raw), num_bytes
    except OSError as error:
        raise NotReadable(f"{path}: {error.strerror or error}") from error


def read_places(path: Path, places: Iterable[Place]) -> Iterator[tuple[Line, int]]:
    """(line, bytes read so far) for the lines at these places, one after another. Raises NotReadable."""
    num_bytes = 0
    try:
        with path.open("rb") as file:
            for place in places:
                file.seek(place.start)
                num_bytes += place.end - place.start
                yield _line(place.line, file.read(place.end - place.start)), num_bytes
    except OSError as error:
        raise NotReadable(f"{path}: {error.strerror or error}") from error


def _line(number: int, raw: bytes) -> Line:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return BadLine(number, f"no JSON: {error}")
    if not isinstance(value, dict):
        return BadLine(number, "no JSON object")
    kind, seq, at = value.get("kind"), value.get("seq"), value.get("t")
    at = float(at) if isinstance(at, int | float) else None
    if kind not in ("request", "response"):
        return BadLine(number, f"kind is {kind!r}, neither request nor response")
    if not isinstance(seq, int):
        return BadLine(number, "seq is no whole number")
    if kind == "response":
        status, reply = value.get("status"), value.get("reply")
        if not isinstance(status, int):
            status = 200 if reply is not None else FAILED
        return Response(number, seq, status, reply if isinstance(reply, dict) else None, at)
    method, path = value.get("method"), value.get("path")
    if not isinstance(method, str) or not isinstance(path, str):
        return BadLine(number, "a request needs a method and a path")
    body = value.get("body")
    if isinstance(body, str):
        try:
            body = orjson.loads(body)
        except orjson.JSONDecodeError:
            body = None
    headers = _headers(value.get("headers"))
    body = body if isinstance(body, dict) else None
    return Request(number, seq, method.upper(), path.partition("?")[0], headers, body, at)


def _headers(value: Any) -> dict[str, str]:
    """Headers of an object or of a list of pairs, names in lower case."""
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(p[0], p[1]) for p in value if isinstance(p, list | tuple) and len(p) == 2]
    else:
        pairs = []
    return {str(name).lower(): str(text) for name, text in pairs}
