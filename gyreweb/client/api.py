"""The REST API: requests, and what its problem documents mean for the command."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar

import httpx

from . import __version__
from .codes import ExitCode
from .config import Login
from .errors import Trouble, Unreachable

#: Seconds that the server may take; a long poll takes its wait on top.
TIMEOUT_S = 30.0
#: How long `patiently` puts up with a server that is away, and how often it tries.
PATIENCE_S = 180.0
RETRY_S = 2.0
Answer = TypeVar("Answer")
AWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


class Api:
    """One server with one token. Every method raises Trouble."""

    def __init__(self, login: Login) -> None:
        self.url = login.url
        headers = {"Authorization": f"Bearer {login.token}", "User-Agent": f"gyre-cli/{__version__}"}
        self._http = httpx.Client(base_url=f"{login.url}/api/v1/", headers=headers, timeout=TIMEOUT_S)

    def get(self, path: str, **query: Any) -> Any:
        """A `wait` in the query may take that much longer."""
        given = {name: value for name, value in query.items() if value is not None}
        return self._json("GET", path, params=given, timeout=TIMEOUT_S + float(given.get("wait", 0)))

    def post(self, path: str, body: dict[str, Any], key: str = "") -> Any:
        """`key`: the same key makes the same run only once."""
        return self._json("POST", path, json=body, headers={"Idempotency-Key": key} if key else {})

    def delete(self, path: str) -> Any:
        return self._json("DELETE", path)

    def pages(self, path: str, limit: int, **query: Any) -> list[Any]:
        """The first `limit` rows of a list."""
        rows: list[Any] = []
        cursor = None
        while len(rows) < limit:
            page = self.get(path, limit=min(500, limit - len(rows)), cursor=cursor, **query)
            rows += page["results"]
            cursor = page["next"]
            if cursor is None:
                break
        return rows

    @contextmanager
    def stream(self, path: str, **query: Any) -> Iterator[httpx.Response]:
        given = {name: value for name, value in query.items() if value is not None}
        try:
            with self._http.stream("GET", path, params=given, timeout=httpx.Timeout(TIMEOUT_S, read=120.0)) as reply:
                if reply.is_error or reply.is_redirect:
                    reply.read()
                    raise self._trouble(reply)
                yield reply
        except httpx.TransportError as error:
            raise self._away(error) from error

    def _json(self, method: str, path: str, **options: Any) -> Any:
        try:
            reply = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise self._away(error) from error
        if reply.is_error or reply.is_redirect:
            raise self._trouble(reply)
        try:
            return reply.json()
        except ValueError as error:
            raise Unreachable(f"{self.url} does not answer like Gyre; is the address right?") from error

    def _away(self, error: httpx.TransportError) -> Unreachable:
        why = str(error) or type(error).__name__
        return Unreachable(f"{self.url} cannot be reached ({why}); is Gyre running there, and is the address right?")

    def _trouble(self, reply: httpx.Response) -> Trouble:
        if reply.is_redirect:
            target = reply.headers.get("Location", "elsewhere")
            return Unreachable(f"{self.url} sends its callers to {target}; `gyre login` with that address")
        try:
            problem = reply.json()
            text = sentence(problem)
        except (ValueError, AttributeError, TypeError):
            return Unreachable(f"{self.url} answered {reply.status_code} and not like Gyre; is the address right?")
        if reply.status_code in AWAY:
            return Unreachable(text)
        codes = {400: ExitCode.USAGE, 401: ExitCode.NOT_AUTHORISED, 403: ExitCode.NOT_AUTHORISED, 422: ExitCode.USAGE}
        return Trouble(codes.get(reply.status_code, ExitCode.REFUSED), text)


def sentence(problem: dict[str, Any]) -> str:
    """A problem document in one line."""
    errors = problem.get("errors") or {}
    if not errors:
        return str(problem.get("detail") or problem["title"])
    return "; ".join(f"{name}: {why}" for name, why in errors.items())


def patiently(say: Callable[[str], None], until: float, ask: Callable[..., Answer], *args: Any, **query: Any) -> Answer:
    """Ask until the server answers: while a run is waited for, its web process may restart.

    Gives up after PATIENCE_S, or at `until` (a reading of time.monotonic).
    """
    give_up, told = min(time.monotonic() + PATIENCE_S, until), False
    while True:
        try:
            return ask(*args, **query)
        except Unreachable as error:
            if time.monotonic() >= give_up:
                raise
            if not told:
                say(f"{error.message} Trying again …")
                told = True
            time.sleep(RETRY_S)
