"""uvicorn's HTTP protocol with an end to every wait for a client, and to the number of clients that are waited for.

A connection is in one of four stages. It opens until its request's headers are there, sends until the body is, is busy
until the answer is written, and idles until the next request. All but the busy ones have time limits. Above the limit
of connections the one that has idled longest is closed for a new one, then the one that opens or sends longest:
whoever holds connections without using them loses them, and nobody is shut out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

#: A request's headers must be complete so soon after its connection, or after their own first byte.
HEADERS_WITHIN_S = 15.0
#: More bytes of headers are refused.
MAX_HEADER_BYTES = 64 * 1024
#: A body may take so long, and a second more for so many bytes; time in which we do not read it does not count.
BODY_WITHIN_S = 30.0
BODY_BYTES_PER_S = 512 * 1024
#: How long an idle connection is kept while there is no lack of them.
IDLE_S = 75
#: Why a connection is given up, by its status.
WHY = {
    408: "the request was not sent to its end in time",
    431: f"the headers of the request have over {MAX_HEADER_BYTES} bytes",
}

#: Header lines and body of an answer.
Answer = tuple[list[tuple[bytes, bytes]], bytes]
#: Makes it from its status and the path that was asked for: empty if that is not known.
Refusing = Callable[[int, str], Answer]


def in_words(status: int, _path: str) -> Answer:
    return [(b"content-type", b"text/plain; charset=utf-8")], f"{WHY[status]}\n".encode()


class Stage(IntEnum):
    """In the order in which connections are given up."""

    IDLE = 0
    OPENING = 1
    SENDING = 2
    BUSY = 3


class GuardedProtocol(HttpToolsProtocol):
    """Use a subclass made by `guarded`."""

    max_connections: ClassVar[int]
    refusing = staticmethod(in_words)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._enter(Stage.OPENING)
        if len(self.connections) > self.max_connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.stage is Stage.IDLE:
            self._enter(Stage.OPENING)
        if self.stage in (Stage.OPENING, Stage.BUSY):  # a busy one may send the next request's headers
            self._num_bytes += len(data)
        super().data_received(data)
        if self.stage in (Stage.OPENING, Stage.BUSY) and self._num_bytes > MAX_HEADER_BYTES:
            self._give_up(431)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._enter(Stage.SENDING)

    def on_body(self, body: bytes) -> None:
        self._num_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._enter(Stage.IDLE if self.cycle is not None and self.cycle.response_complete else Stage.BUSY)

    def on_response_complete(self) -> None:
        has_next = bool(self.pipeline)
        super().on_response_complete()
        if self.stage is Stage.BUSY and not has_next:
            self._enter(Stage.IDLE)

    def handle_websocket_upgrade(self) -> None:
        """The connection is another protocol's from here on."""
        self._disarm()
        super().handle_websocket_upgrade()

    def _enter(self, stage: Stage) -> None:
        self._disarm()
        self.stage, self._since, self._num_bytes = stage, self.loop.time(), 0
        if stage is Stage.OPENING:
            self._timer = self.loop.call_later(HEADERS_WITHIN_S, self._give_up, 408)
        elif stage is Stage.SENDING:
            self._timer = self.loop.call_later(BODY_WITHIN_S, self._watch_body)
        elif stage is Stage.IDLE:
            self._timer = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch_body(self) -> None:
        now = self.loop.time()
        if self.flow.read_paused:  # it is we who do not read
            self._since = now
        left = self._since + BODY_WITHIN_S + self._num_bytes / BODY_BYTES_PER_S - now
        if left <= 0:
            self._give_up(408)
        else:
            self._timer = self.loop.call_later(min(left, BODY_WITHIN_S), self._watch_body)

    def _give_up(self, status: int) -> None:
        """Close the connection, and say why to a client that has no answer yet."""
        self._disarm()
        if self.transport.is_closing():
            return
        is_answered = self.stage is not Stage.OPENING and self.cycle is not None and self.cycle.response_started
        if not is_answered:
            path = getattr(self, "url", b"").partition(b"?")[0].decode("latin-1")
            headers, body = self.refusing(status, path)
            headers = [*headers, (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
            lines = b"".join(b"%s: %s\r\n" % header for header in headers)
            self.transport.write(STATUS_LINE[status] + lines + b"\r\n" + body)
        self.transport.close()

    def _make_room(self) -> None:
        others = [
            known
            for known in self.connections
            if isinstance(known, GuardedProtocol) and known is not self and not known.transport.is_closing()
        ]
        if len(others) < self.max_connections:
            return
        oldest = min(others, key=lambda known: (known.stage, known._since), default=self)
        victim = self if oldest.stage is Stage.BUSY else oldest
        victim._disarm()
        victim.transport.abort()


def guarded(max_connections: int, refusing: Refusing = in_words) -> type[Any]:
    """The protocol of a server that takes so many connections at once, and how it answers clients it turns away."""
    members = {"max_connections": max_connections, "refusing": staticmethod(refusing)}
    return type("Guarded", (GuardedProtocol,), members)
