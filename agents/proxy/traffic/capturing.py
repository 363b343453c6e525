"""A server that stands between a harness and its model and writes down what passes.

The model is an upstream server, or a script. Each request and each answer becomes one line of the capture, at the time
when it happens; an answer's line is written before the harness gets its end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import aiohttp
import orjson
from aiohttp import web

from agents.proxy.canonical import BadRequest
from agents.proxy.dialects import models
from agents.proxy.dialects.base import Head
from agents.proxy.replies import Reply
from agents.proxy.traffic import redact
from agents.proxy.traffic.assemble import reply_of
from agents.proxy.traffic.executions import Route, route
from agents.proxy.traffic.reading import Request
from agents.proxy.traffic.scripted import Said, ScriptedModel

MAX_BODY_BYTES = 64 * 1024 * 1024
#: Headers of a hop, not of the message.
_HOP = frozenset({"host", "content-length", "connection", "transfer-encoding", "keep-alive", "accept-encoding"})
_CONTEXT_TOKENS = 200_000


@dataclass(slots=True, eq=False)
class Capture:
    """Writes one capture. Closed by `close`; `num_requests` have been written."""

    out: Path
    full: bool = False
    num_requests: int = 0
    started: float = field(default_factory=time.monotonic)
    inflight: int = 0
    _file: IO[bytes] = field(init=False)
    _cutter: redact.Cutter = field(default_factory=redact.Cutter)

    def __post_init__(self) -> None:
        self._file = self.out.open("wb")

    def close(self) -> None:
        self._file.close()

    def request(self, incoming: web.Request, body: Any) -> int:
        """Write a request; returns its number."""
        self.num_requests += 1
        self.inflight += 1
        shown = redact.secrets(body)
        self._write(
            {
                "kind": "request",
                "seq": self.num_requests,
                "t": self._now(),
                "inflight": self.inflight,
                "method": incoming.method,
                "path": incoming.path,
                "query": dict(incoming.query),
                "headers": redact.headers(incoming.headers.items()),
                "body": shown if self.full else self._cutter.body(shown),
            }
        )
        return self.num_requests

    def response(self, seq: int, status: int, reply: Any, began: float, script: str = "", note: str = "") -> None:
        """Write an answer."""
        self.inflight -= 1
        shown = redact.secrets(reply)
        line = {"kind": "response", "seq": seq, "script": script, "status": status, "reply": shown}
        line |= {"t": self._now(), "dur": round(time.monotonic() - began, 3), "note": note}
        self._write({name: value for name, value in line.items() if value != "" or name not in ("script", "note")})
        self._cutter.hear(shown)

    def _now(self) -> float:
        return round(time.monotonic() - self.started, 3)

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(orjson.dumps(line) + b"\n")
        self._file.flush()


@dataclass(slots=True, eq=False)
class Server:
    """`upstream` is the model's base URL; without one `model` answers. `seen` is called with each request."""

    capture: Capture
    upstream: str = ""
    model: ScriptedModel = field(default_factory=ScriptedModel)
    seen: Callable[[str], None] = lambda line: None
    _client: aiohttp.ClientSession | None = None
    _runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError when the port is taken."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self._client = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30), auto_decompress=True
        )
        [(_, bound, *_)] = [address[:2] for address in self._runner.addresses]
        return int(bound)

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        raw, began = await incoming.read(), time.monotonic()
        try:
            body = orjson.loads(raw) if raw else None
        except orjson.JSONDecodeError:
            body = raw.decode("utf-8", "replace")
        seq = self.capture.request(incoming, body)
        self.seen(f"{seq} {incoming.method} {incoming.path}")
        try:
            if self.upstream:
                return await self._forward(incoming, raw, seq, began)
            return await self._play(incoming, body, seq, began)
        except (asyncio.CancelledError, ConnectionResetError):
            self.capture.response(seq, 499, None, began, note="the client left")
            raise

    async def _forward(self, incoming: web.Request, raw: bytes, seq: int, began: float) -> web.StreamResponse:
        assert self._client is not None
        kept = [(name, value) for name, value in incoming.headers.items() if name.lower() not in _HOP]
        url = self.upstream.rstrip("/") + incoming.rel_url.raw_path_qs
        try:
            async with self._client.request(incoming.method, url, data=raw or None, headers=kept) as answer:
                passed = {n: v for n, v in answer.headers.items() if n.lower() not in {*_HOP, "content-encoding"}}
                outgoing = web.StreamResponse(status=answer.status, headers=passed)
                await outgoing.prepare(incoming)
                chunks: list[bytes] = []
                note = ""
                try:
                    async for chunk in answer.content.iter_any():
                        chunks.append(chunk)
                        await outgoing.write(chunk)
                except aiohttp.ClientPayloadError as error:
                    note = f"the upstream broke off: {error}"
                reply = reply_of(b"".join(chunks), answer.headers.get("content-type", ""))
                self.capture.response(seq, answer.status, reply, began, note=note)
                if note:
                    if incoming.transport is not None:
                        incoming.transport.close()
                    return outgoing
                await outgoing.write_eof()
                return outgoing
        except aiohttp.ClientConnectionError as error:
            self.capture.response(seq, 502, None, began, note=f"the upstream does not answer: {error}")
            return web.json_response({"error": {"message": f"upstream: {error}", "type": "api_error"}}, status=502)

    async def _play(self, incoming: web.Request, body: Any, seq: int, began: float) -> web.StreamResponse:
        where = route(Request(0, seq, incoming.method, incoming.path, {}, None))
        if where.dialect is None or not isinstance(body, dict):
            self.capture.response(seq, 200 if incoming.method in ("GET", "HEAD") else 404, None, began)
            return _listing(incoming)
        try:
            request = where.dialect.read(body)
        except BadRequest as error:
            self.capture.response(seq, 400, None, began, note=str(error))
            return _json(where.dialect.error("bad_request", str(error)), 400)
        if where.counts:
            self.capture.response(seq, 200, None, began)
            return web.json_response({"input_tokens": len(str(body)) // 4})
        said = self.model.answer(request, where.dialect.tool_id_prefix)
        if said.status != 200:
            self.capture.response(seq, said.status, None, began, said.script)
            return _json(where.dialect.error("unavailable", "scripted failure"), said.status)
        tokens = said.input_tokens if said.input_tokens is not None else len(str(body)) // 4
        head = Head(f"{where.dialect.reply_id_prefix}{seq:032x}", request.model or "model", tokens, int(time.time()))
        sent = _encoded(where, head, request, said)
        kind = "text/event-stream" if request.stream else "application/json"
        outgoing = web.StreamResponse(headers={"content-type": kind})
        await outgoing.prepare(incoming)
        for chunk in sent[:-1]:
            await outgoing.write(chunk)
        if said.breaks and request.stream:
            self.capture.response(seq, 200, reply_of(b"".join(sent[:-1]), kind), began, said.script, "the stream broke")
            if said.breaks == "abort" and incoming.transport is not None:
                incoming.transport.abort()
            else:
                await outgoing.write_eof()
            return outgoing
        self.capture.response(seq, 200, reply_of(b"".join(sent), kind), began, said.script)
        await outgoing.write(sent[-1])
        await outgoing.write_eof()
        return outgoing


def _encoded(where: Route, head: Head, request: Any, said: Said) -> list[bytes]:
    """The answer in its dialect: events one by one, or one body."""
    assert where.dialect is not None
    if not request.stream:
        reply = Reply()
        for piece in said.pieces:
            reply.add(piece)
        return [where.dialect.whole(head, request, reply, said.finish())]
    encoder = where.dialect.stream(head, request)
    return [encoder.start(), *(encoder.event(piece) for piece in said.pieces), encoder.event(said.finish())]


def _listing(incoming: web.Request) -> web.Response:
    if incoming.method == "HEAD":
        return web.Response()
    if incoming.method == "GET" and incoming.path.rstrip("/").endswith("/models"):
        return _json(models.listing(_CONTEXT_TOKENS), 200)
    return web.json_response({"error": {"message": "not served here", "type": "not_found_error"}}, status=404)


def _json(body: bytes, status: int) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
