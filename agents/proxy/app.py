"""The recording proxy as a raw ASGI application (proxy.md)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import orjson
import psycopg

from agents.proxy import dialects
from agents.proxy.call import LiveCall, Services
from agents.proxy.canonical import BadRequest, ModelRequest
from agents.proxy.dialects import models
from agents.proxy.dialects.base import MODEL, Dialect, Head
from agents.proxy.engine import CONTEXT_MARGIN_TOKENS, EngineClient
from agents.proxy.registry import Sessions
from agents.proxy.replies import Failure, Finish
from agents.proxy.router import Router
from agents.proxy.session import Prepared, Session
from agents.proxy.store import Store

log = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 64 * 1024 * 1024
KEEP_ALIVE_S = 3.0
CELLS_EVERY_S = 0.1
_JSON = [(b"content-type", b"application/json")]
_EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class Refusal(Exception):
    """A request that gets an error of this kind; `stream`: as the body of a stream, where its dialect has it so."""

    def __init__(self, kind: str, message: str, stream: bytes | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.stream = kind, message, stream


@dataclass(slots=True)
class ProxyApp:
    """One process's proxy. Start it through ASGI's lifespan."""

    database_url: str
    num_render_threads: int = 2
    services: Services = field(init=False)
    sessions: Sessions = field(init=False)
    _pool: ThreadPoolExecutor = field(init=False)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _cells_seen_at: float = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            raise NotImplementedError(f"{scope['type']} is not served")

    async def open(self) -> None:
        store = Store(self.database_url)
        await store.open()
        self.services = Services(store, Router(), EngineClient())
        self.sessions = Sessions(store)
        self._pool = ThreadPoolExecutor(self.num_render_threads, "render")
        self._spawn(self._watch_cells())
        self._spawn(self.sessions.sweep())

    async def close(self) -> None:
        """Calls in flight end as they are: their clients' retries become siblings (reliability.md)."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.services.engines.close()
        await self.services.store.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            event = (await receive())["type"]
            if event == "lifespan.startup":
                try:
                    await self.open()
                except Exception as error:
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path == "/health":
            return await self._health(send)
        if method == "HEAD" and path.endswith("/api/hello"):
            return await _respond(send, 200, b"")
        prefix, _, rest = path.removeprefix("/x/").partition("/")
        key, route = (prefix, f"/{rest}") if path.startswith("/x/") else ("", path)
        dialect = dialects.of_path(route)
        try:
            session = await self._session(key)
            if method == "GET" and route.startswith("/v1/models"):
                name = route.removeprefix("/v1/models").strip("/")
                limit = session.context_tokens
                return await _respond(send, 200, models.one(name, limit) if name else models.listing(limit))
            if method != "POST" or route not in dialects.BY_PATH:
                raise Refusal("not_found", f"{method} {route} is not served here")
            raw = await _body(scope, receive)
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            if route in dialects.COUNTS:
                return await _respond(send, 200, await self._count(session, dialect, raw))
            call = await self._admit(session, dialect, raw, headers)
        except Refusal as refusal:
            return await _refuse(send, dialect, refusal)
        except psycopg.OperationalError as error:
            log.warning("the database does not answer: %s", error)
            return await _refuse(send, dialect, Refusal("unavailable", "the recording database does not answer"))
        except ConnectionResetError:
            return None
        await _Answer(call, dialect, send).give(receive)

    async def _session(self, key: str) -> Session:
        session = await self.sessions.get(key)
        if session is None:
            raise Refusal("dead_key", "this execution key is unknown, or its execution has ended")
        return session

    async def _admit(self, session: Session, dialect: Dialect, raw: bytes, headers: dict[str, str]) -> LiveCall:
        """The call that answers this request: a new one, or the one that it repeats."""
        request, request_hash, prepared = await self._offload(_prepare, session, dialect, raw, headers)
        joined = session.retried(request_hash, headers, prepared)
        if joined is not None:
            return joined
        room = session.context_tokens - CONTEXT_MARGIN_TOKENS - len(prepared.input_ids)
        if room < 1:
            raise _too_long(dialect, request, len(prepared.input_ids), session.context_tokens)
        call = LiveCall(
            self.services,
            session,
            request,
            request_hash,
            raw,
            prepared,
            dialect.tool_id_prefix,
            min(room, session.config.max_new_tokens, request.sampling.max_tokens or room),
        )
        session.open(call)
        self._spawn(call.run())
        return call

    async def _count(self, session: Session, dialect: Dialect, raw: bytes) -> bytes:
        """Record a request that asks for its length, and answer it."""
        request, request_hash, prepared = await self._offload(_count, session, dialect, raw)
        call = LiveCall(self.services, session, request, request_hash, raw, prepared, dialect.tool_id_prefix, 0)
        call.number = session.take_number()
        if not await call.count():
            raise Refusal("dead_key", "this execution has ended or was started again")
        return dialect.counted(len(prepared.input_ids))

    async def _health(self, send: Send) -> None:
        """Healthy while the table of cells is fresh; that needs event loop and database alike."""
        age_s = asyncio.get_running_loop().time() - self._cells_seen_at
        healthy = age_s < 5.0
        state = {
            "status": "ok" if healthy else "no table of cells",
            "sessions": len(self.sessions),
            "calls": sum(self.services.router.num_calls.values()),
        }
        await _respond(send, 200 if healthy else 503, orjson.dumps(state))

    async def _watch_cells(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async for cells in self.services.store.watch_cells(CELLS_EVERY_S):
                    self.services.router.update(cells)
                    self._cells_seen_at = loop.time()
            except psycopg.Error as error:
                log.warning("cells cannot be read: %s", error)
            await asyncio.sleep(0.5)

    async def _offload(self, work: Callable[..., Any], *values: Any) -> Any:
        """Run in a worker thread; what is wrong with a request comes back as a refusal."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, *values)
        except BadRequest as error:
            raise Refusal("bad_request", str(error)) from error

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Answer:
    """Writes one call's events to one client, which may leave at any time."""

    def __init__(self, call: LiveCall, dialect: Dialect, send: Send) -> None:
        self._call, self._dialect, self._send = call, dialect, send
        self._head = Head(f"{dialect.reply_id_prefix}{call.id}", MODEL, len(call.prepared.input_ids), int(call.created))
        self._gone = False

    async def give(self, receive: Receive) -> None:
        call = self._call
        reader = call.join()
        watcher = asyncio.create_task(self._watch(receive, reader))
        try:
            await (self._stream(reader) if call.request.stream else self._whole(reader))
            call.acknowledged = not self._gone
        finally:
            call.leave(reader)
            watcher.cancel()

    async def _watch(self, receive: Receive, reader: asyncio.Event) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._call.leave(reader)
        reader.set()

    async def _whole(self, reader: asyncio.Event) -> None:
        while not self._ended():
            await reader.wait()
            reader.clear()
            if self._gone:
                return
        last = self._call.events[-1]
        if isinstance(last, Failure):
            return await _refuse(self._send, self._dialect, Refusal(last.kind, last.message))
        if isinstance(last, Finish):
            await _respond(
                self._send, 200, self._dialect.whole(self._head, self._call.request, self._call.parser.reply, last)
            )

    async def _stream(self, reader: asyncio.Event) -> None:
        call, encoder = self._call, self._dialect.stream(self._head, self._call.request)
        num_sent, started, loop = 0, False, asyncio.get_running_loop()
        while not self._gone:
            events = call.events[num_sent:]
            if not events:
                timer = loop.call_later(KEEP_ALIVE_S, reader.set)
                await reader.wait()
                timer.cancel()
                reader.clear()
                events = call.events[num_sent:]
            if self._gone:
                return
            if not started:
                if events and isinstance(events[0], Failure):
                    return await _refuse(self._send, self._dialect, Refusal(events[0].kind, events[0].message))
                started = True
                await self._send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
                await self._send({"type": "http.response.body", "body": encoder.start(), "more_body": True})
            num_sent += len(events)
            ended = bool(events) and isinstance(events[-1], Finish | Failure)
            body = b"".join([encoder.event(event) for event in events]) or self._dialect.keep_alive
            await self._send({"type": "http.response.body", "body": body, "more_body": not ended})
            if ended:
                return

    def _ended(self) -> bool:
        events = self._call.events
        return bool(events) and isinstance(events[-1], Finish | Failure)


def _prepare(
    session: Session, dialect: Dialect, raw: bytes, headers: dict[str, str]
) -> tuple[ModelRequest, str, Prepared]:
    request = _parse(dialect, raw)
    return request, hashlib.sha256(raw).hexdigest(), session.prepare(request, headers)


def _count(session: Session, dialect: Dialect, raw: bytes) -> tuple[ModelRequest, str, Prepared]:
    request = _parse(dialect, raw)
    return request, hashlib.sha256(raw).hexdigest(), session.count(request)


def _parse(dialect: Dialect, raw: bytes) -> ModelRequest:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return dialect.read(body)


async def _body(scope: Scope, receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size <= MAX_BODY_BYTES:
            chunks.append(chunk)
    if size > MAX_BODY_BYTES:
        raise Refusal("too_large", f"the body has {size} bytes; at most {MAX_BODY_BYTES} are taken")
    return b"".join(chunks)


def _too_long(dialect: Dialect, request: ModelRequest, input_tokens: int, limit: int) -> Refusal:
    message = dialect.too_long(input_tokens, limit)
    head = Head(f"{dialect.reply_id_prefix}{secrets.token_hex(16)}", MODEL, input_tokens, int(time.time()))
    return Refusal("too_long", message, dialect.too_long_stream(head, request, message) if request.stream else None)


async def _refuse(send: Send, dialect: Dialect, refusal: Refusal) -> None:
    if refusal.stream is not None:
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        return await send({"type": "http.response.body", "body": refusal.stream})
    passes = refusal.kind in ("unavailable", "engine")
    extra = [(b"retry-after", b"1")] if refusal.kind == "unavailable" else []
    # The official clients would try a 409 again.
    extra += [] if passes else [(b"x-should-retry", b"false")]
    await _respond(send, dialect.status(refusal.kind), dialect.error(refusal.kind, refusal.message), extra)


async def _respond(send: Send, status: int, body: bytes, extra: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [*_JSON, (b"content-length", str(len(body)).encode()), *(extra or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
