"""Which requests of a capture belong to one execution, and which harness each is of.

Executions in one file are told apart by host, by the path before the API's own (`/x/KEY`, `/run/ID`), by the client
program, and by numbers that start again. Sessions of a program that shares one address stay one execution: its profile
keeps their conversations apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agents.proxy.canonical import BadRequest, ModelRequest
from agents.proxy.dialects import BY_PATH, COUNTS
from agents.proxy.dialects.base import Dialect
from agents.proxy.profiles import PROFILES, generic
from agents.proxy.profiles.base import features
from agents.proxy.profiles.detect import Detection, detect
from agents.proxy.traffic.reading import Request

#: Longest first, so that a path that ends in two of them is the more exact one.
_ROUTES = sorted([*BY_PATH, "/v1/responses/compact", "/responses/compact"], key=len, reverse=True)
#: Kinds of blocks that are no text.
_NO_TEXT = frozenset(
    {"image", "image_url", "input_image", "document", "file", "input_file", "input_audio", "video_url", "search_result"}
)
#: How many of an execution's requests decide which harness it is.
_LOOKED_AT = 64


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes: the path before the API's own, the API's own, and its dialect (None: no model call)."""

    base: str
    path: str
    dialect: Dialect | None

    @property
    def counts(self) -> bool:
        return self.path in COUNTS


def route(request: Request) -> Route:
    found = next((r for r in _ROUTES if request.path.endswith(r)), "")
    base = request.path.removesuffix(found) if found else ""
    if found.startswith("/v1/") or not found:
        pass
    elif base.endswith("/v1"):
        base, found = base.removesuffix("/v1"), f"/v1{found}"
    if not found or request.method != "POST":
        return Route(base, found or request.path, None)
    dialect = BY_PATH.get(found) or BY_PATH[found.removesuffix("/compact")]
    return Route(base, found, dialect)


def sender(request: Request, base: str) -> str:
    """Who sends it: the address that it goes to, and the client program."""
    program = request.headers.get("user-agent", "").partition("/")[0]
    return f"{request.headers.get('host', '')}{base} {program}"


@dataclass(slots=True)
class Segments:
    """Names the execution of each model call: same address and program, numbers that rise."""

    _highest: dict[str, int] = field(default_factory=dict)
    _part: dict[str, int] = field(default_factory=dict)

    def of(self, request: Request, base: str) -> str:
        base = sender(request, base)
        if request.seq <= self._highest.get(base, -1):
            self._part[base] = self._part.get(base, 1) + 1
        self._highest[base] = request.seq
        return f"{base}#{self._part.get(base, 1)}"


def parsed(request: Request, where: Route) -> tuple[ModelRequest, str]:
    """The request, and why the proxy would refuse it as it stands ("" when it would not).

    Blocks that are no text, images and the like, become a text that says so. Raises BadRequest for what cannot be read.
    """
    if where.dialect is None or request.body is None:
        raise BadRequest("the request has no body that is a JSON object")
    try:
        return where.dialect.read(request.body), ""
    except BadRequest as error:
        return where.dialect.read(_as_text(request.body)), str(error)


def _as_text(value: Any) -> Any:
    """A JSON value whose blocks of other kinds than text are texts."""
    if isinstance(value, list):
        return [_as_text(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if isinstance(kind, str) and kind in _NO_TEXT:
        return {"type": "text", "text": f"[{kind}]"}
    return {key: _as_text(inner) for key, inner in value.items()}


def detections(requests: Iterable[Request]) -> dict[str, Detection]:
    """The harness of each execution."""
    segments = Segments()
    seen: dict[str, list[tuple[Request, Route]]] = {}
    for request in requests:
        where = route(request)
        if where.dialect is None:
            continue
        own = seen.setdefault(segments.of(request, where.base), [])
        if len(own) < _LOOKED_AT:
            own.append((request, where))
    found: dict[str, Detection] = {}
    for name, own in seen.items():
        looks = []
        for request, where in own:
            try:
                looks.append(features(parsed(request, where)[0], request.headers, where.path))
            except BadRequest:
                continue
        found[name] = detect(
            {n: p for n, p in PROFILES.items() if p is not generic.PROFILE}, looks, generic.PROFILE.name
        )
    return found
