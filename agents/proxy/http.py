"""Reading requests and writing answers on ASGI's terms (docs/proxy.md, "Limits")."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agents.proxy import dialects, encodings
from agents.proxy.canonical import ModelRequest
from agents.proxy.dialects.base import MODEL, Dialect, Head
from agents.serving.connections import WHY

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 64 * 1024 * 1024
#: What is still read of a body that is too large, so that its sender can hear why before the connection ends.
_DRAINED_BYTES = 4 * MAX_BODY_BYTES
#: When a client may try again that was refused because the proxy cannot record: a second to so many, drawn for each,
#: so that those who were refused together do not come back together.
RETRY_AFTER_S = 4

_JSON = [(b"content-type", b"application/json")]
EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class Refusal(Exception):
    """A request that gets an error of this kind; `stream`: as the body of a stream, where its dialect has it so."""

    def __init__(self, kind: str, message: str, stream: bytes | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.stream = kind, message, stream


def too_long(dialect: Dialect, request: ModelRequest, input_tokens: int, limit: int) -> Refusal:
    message = dialect.too_long(input_tokens, limit)
    head = Head(f"{dialect.reply_id_prefix}{secrets.token_hex(16)}", MODEL, input_tokens, int(time.time()))
    return Refusal("too_long", message, dialect.too_long_stream(head, request, message) if request.stream else None)


async def read_body(receive: Receive) -> bytes:
    """A whole body. Raises Refusal when it is too large, ConnectionResetError when its sender left."""
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= _DRAINED_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size <= MAX_BODY_BYTES:
            chunks.append(chunk)
        else:
            chunks.clear()
    if size > MAX_BODY_BYTES:
        limit = f"{MAX_BODY_BYTES // 2**20} MiB ({MAX_BODY_BYTES} bytes)"
        raise Refusal("too_large", f"the body has {'over ' if more else ''}{size} bytes; at most {limit} are taken")
    return b"".join(chunks)


def decoded(raw: bytes, header: str) -> bytes:
    """A body that its sender compressed. Raises Refusal when it cannot be read or is too large."""
    try:
        return encodings.decoded(raw, header, MAX_BODY_BYTES)
    except encodings.Undecodable as error:
        raise Refusal("too_large" if error.is_large else "bad_request", str(error)) from error


def given_up(status: int, path: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Answer to a client whose request never came to its end, in the dialect of its path (`Refusing`)."""
    dialect = dialects.of_path(dialects.route_of(path)[1])
    kind = {408: "late", 431: "headers_too_large"}[status]
    id = (dialect.request_id_header, f"req_{secrets.token_hex(12)}".encode())
    return [*_JSON, id], dialect.error(kind, WHY[status])


async def refuse(send: Send, dialect: Dialect, refusal: Refusal, id: str = "") -> None:
    """`id`: of the request, where something is on record under it."""
    if refusal.stream is not None:
        await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        return await send({"type": "http.response.body", "body": refusal.stream})
    passes = refusal.kind in ("unavailable", "engine")
    extra = [(b"retry-after", b"%d" % (1 + secrets.randbelow(RETRY_AFTER_S)))] if refusal.kind == "unavailable" else []
    # The official clients would try a 409 again.
    extra += [] if passes else [(b"x-should-retry", b"false")]
    extra.append((dialect.request_id_header, (id or f"req_{secrets.token_hex(12)}").encode()))
    await respond(send, dialect.status(refusal.kind), dialect.error(refusal.kind, refusal.message), extra)


async def respond(send: Send, status: int, body: bytes, extra: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [*_JSON, (b"content-length", str(len(body)).encode()), *(extra or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
