"""The recording proxy as a raw ASGI application (docs/proxy.md)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson
import psycopg

from agents.core.bounds import storable
from agents.proxy import bodies, dialects, memory, threads
from agents.proxy.alarms import EngineAlarms
from agents.proxy.answer import Answer
from agents.proxy.budget import TooLong
from agents.proxy.call import ENDED, INTERNAL_ERROR, CallTask, Services
from agents.proxy.canonical import BadRequest, ModelRequest, Sampling
from agents.proxy.dialects import models
from agents.proxy.dialects.base import Dialect
from agents.proxy.encodings import codings
from agents.proxy.engine import CONTEXT_MARGIN_TOKENS, FIRST_TOKEN_S, IDLE_S, EngineClient
from agents.proxy.forward import Elsewhere, Peers
from agents.proxy.history import Prepared, unplaced
from agents.proxy.http import Receive, Refusal, Scope, Send, decoded, read_body, refuse, respond, too_long
from agents.proxy.live import LiveCall
from agents.proxy.ownership import Identity, Ownership
from agents.proxy.registry import Sessions
from agents.proxy.room import SMALL_BYTES, Intake
from agents.proxy.router import Router
from agents.proxy.session import Session
from agents.proxy.spool import DATABASE_GONE, RECORD_WITHIN_S, Spool
from agents.proxy.store import CONNECTION_WITHIN_S, Store
from agents.proxy.tokenizer import TOKENISED
from agents.room import Gauge, Level

log = logging.getLogger(__name__)
T = TypeVar("T")

CELLS_EVERY_S = 0.1
BEAT_EVERY_S = 1.0
ROOM_EVERY_S = 0.25
TIDY_AFTER_S = 1.0
#: How long a new request waits for a database that does not answer.
ADMIT_WITHIN_S = 10.0


@dataclass(slots=True)
class ProxyApp:
    """One process's proxy. Start it through ASGI's lifespan.

    `name` is its identity over restarts; `socket` and `address` are where others reach it. `home` is GYRE_HOME: nothing
    is recorded while its disk is nearly full.
    """

    database_url: str
    name: str = "proxy-0"
    socket: str = ""
    address: str = ""
    home: Path | None = None
    num_threads: int = 4
    first_token_s: float = FIRST_TOKEN_S
    idle_s: float = IDLE_S
    record_within_s: float = RECORD_WITHIN_S
    admit_within_s: float = ADMIT_WITHIN_S
    connection_within_s: float = CONNECTION_WITHIN_S
    services: Services = field(init=False)
    sessions: Sessions = field(init=False)
    _ownership: Ownership = field(init=False)
    _peers: Peers = field(init=False)
    _pool: ThreadPoolExecutor = field(init=False)
    _intake: Intake = field(default_factory=Intake)
    _unpacking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _has_freed: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _cells_seen_at: float = 0.0
    _is_superseded: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            raise NotImplementedError(f"{scope['type']} is not served")

    async def open(self) -> None:
        store = Store(self.database_url, connection_within_s=self.connection_within_s)
        await store.open()
        self._ownership = Ownership(store.pool)
        identity = await self._ownership.register(self.name, self.socket, self.address)
        self._pool = ThreadPoolExecutor(self.num_threads, "work")
        gauge = None if self.home is None else Gauge(self.home)
        router = Router()
        self.services = Services(
            store,
            Spool(store, self.record_within_s, gauge=gauge),
            router,
            EngineClient(),
            identity,
            self._in_thread,
            EngineAlarms(store, router),
            self.first_token_s,
            self.idle_s,
        )
        self.sessions = Sessions(store, self._ownership, identity, self._in_thread)
        self._peers = Peers()
        self._spawn(self._watch_cells())
        self._spawn(self._tidy())
        self._spawn(self._beat(identity))
        if gauge is not None:
            self._spawn(self._watch_room(gauge))
        self._spawn(self.sessions.sweep())

    async def close(self) -> None:
        """Calls in flight end as they are: their clients' retries become siblings (docs/reliability.md)."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.services.engines.close()
        await self.services.alarms.close()
        await self._peers.close()
        try:
            await self._ownership.stop(self.services.identity)
        except psycopg.Error as error:
            log.warning("the end of this proxy is not written: %s", error)
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
            return await respond(send, 200, b"")
        key, route = dialects.route_of(path)
        dialect = dialects.of_path(route)
        session: Session | None = None
        try:
            try:
                session = await self._session(key)
            except Elsewhere as owner:
                return await self._peers.forward(owner.address, scope, receive, send, self._intake.reading(key, scope))
            if method == "GET" and (name := dialects.model_asked(route)) is not None:
                limit = session.context_tokens
                return await respond(send, 200, models.one(name, limit) if name else models.listing(limit))
            if method != "POST" or route not in dialects.BY_PATH:
                raise Refusal("not_found", f"{method} {route} is not served here")
            with self._intake.request(key):
                call = await self._taken_in(session, key, dialect, route, scope, receive)
                if isinstance(call, bytes):
                    return await respond(send, 200, call)
                return await Answer(call, dialect, send).give(receive)
        except Refusal as refusal:
            return await refuse(send, dialect, refusal)
        except DATABASE_GONE as error:
            log.warning("the database does not answer: %s", error)
            return await refuse(send, dialect, _unavailable())
        except ConnectionResetError:
            return None
        except Exception as error:
            raw, cause = (error.raw, error.why) if isinstance(error, _Broken) else (b"", error)
            log.error("%s %s broke the proxy", method, route, exc_info=cause)
            return await self._break_off(send, dialect, session, raw, cause)

    async def _taken_in(
        self, session: Session, key: str, dialect: Dialect, route: str, scope: Scope, receive: Receive
    ) -> LiveCall | bytes:
        """Read a body and do what it asks for, both where there is room: its call, or the answer itself."""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        encoding = ",".join(value for name, value in headers if name == "content-encoding")
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._intake.reading(key, scope))
            raw = await read_body(receive)
            if codings(encoding):
                # One at a time: what is unpacked has no room of its own yet.
                async with self._unpacking:
                    raw = await self._in_thread(decoded, raw, encoding)
                    await held.enter_async_context(self._intake.working(key, len(raw)))
            else:
                await held.enter_async_context(self._intake.working(key, len(raw)))
            try:
                if route in dialects.COUNTS:
                    return await self._count(session, dialect, raw)
                return await self._admit(session, dialect, raw, dict(headers))
            except (Refusal, ConnectionResetError, *DATABASE_GONE):
                raise
            except Exception as error:
                raise _Broken(raw, error) from error
            finally:
                if len(raw) > SMALL_BYTES:
                    self._has_freed.set()

    async def _session(self, key: str) -> Session:
        if self._is_superseded:
            raise Refusal("unavailable", "another process has taken the place of this recording proxy")
        session = await self._outlasting(lambda: self.sessions.get(key))
        if session is None:
            raise Refusal("dead_key", "this execution key is unknown, or its execution has ended")
        return session

    async def _outlasting(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the database, over a short absence of it. Refuses at once while the spool is full."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.admit_within_s
        while True:
            if self.services.spool.is_full:
                raise _unavailable(self.services.spool.lack)
            try:
                return await ask()
            except DATABASE_GONE:
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(0.2)

    async def _admit(self, session: Session, dialect: Dialect, raw: bytes, headers: dict[str, str]) -> LiveCall:
        """The call that answers this request: a new one, or the one that it repeats."""
        request, request_hash, prepared = await self._offload(_prepare, session, dialect, raw, headers)
        if prepared is None:
            request = await self._resumed(session, request)
            prepared = await self._offload(_rendered, session, dialect, request, headers)
        joined = session.live.retried(request_hash, headers, prepared)
        if joined is not None and joined.request.dialect == dialect.name:
            return joined
        room = session.context_tokens - CONTEXT_MARGIN_TOKENS - len(prepared.input_ids)
        if room < 1:
            raise too_long(dialect, request, len(prepared.input_ids), session.context_tokens)
        max_new_tokens = min(room, session.config.max_new_tokens, request.sampling.max_tokens or room)
        call = self._task(session, dialect, request, request_hash, raw, prepared, max_new_tokens=max_new_tokens)
        session.open(call)
        self._spawn(call.run())
        return call

    def _task(
        self,
        session: Session,
        dialect: Dialect,
        request: ModelRequest,
        request_hash: str,
        raw: bytes,
        prepared: Prepared,
        *,
        max_new_tokens: int = 0,
        **fields: Any,
    ) -> CallTask:
        return CallTask(
            services=self.services,
            session=session,
            execution=session.execution,
            request=request,
            request_hash=request_hash,
            raw_request=raw,
            prepared=prepared,
            tool_id_prefix=dialect.tool_id_prefix,
            max_new_tokens=max_new_tokens,
            **fields,
        )

    async def _break_off(
        self, send: Send, dialect: Dialect, session: Session | None, raw: bytes, error: Exception
    ) -> None:
        """Answer a request that broke the proxy before it became a call, and keep it for whoever looks into it."""
        id = secrets.token_hex(16)
        if session is not None and raw:
            request = ModelRequest(dialect.name, [], [], Sampling(), False)
            digest = hashlib.sha256(raw).hexdigest()
            call = self._task(session, dialect, request, digest, raw, unplaced(), id=id)
            call.number = session.take_number()
            try:
                await call.give_up(f"the request broke the recording proxy: {type(error).__name__}: {error}")
            except Exception:
                log.exception("request %s of execution %s is not on record", id, session.execution.id)
        await refuse(send, dialect, Refusal("broken", INTERNAL_ERROR), id)

    async def _resumed(self, session: Session, request: ModelRequest) -> ModelRequest:
        """A request that names the reply it follows, with all that was said before."""
        execution = session.execution
        follows = storable(request.follows)
        rows = await self.services.store.thread(execution.id, execution.attempt, follows)
        if not rows:
            raise Refusal(
                "thread_not_found", "this execution has no such reply to go on from: send the whole conversation"
            )
        resumed: ModelRequest = await self._offload(threads.resumed, request, rows)
        return resumed

    async def _count(self, session: Session, dialect: Dialect, raw: bytes) -> bytes:
        """Record a request that asks for its length, and answer it."""
        request, request_hash, prepared = await self._offload(_count, session, dialect, raw)
        call = self._task(session, dialect, request, request_hash, raw, prepared)
        call.number = session.take_number()
        if not await call.count():
            raise Refusal("dead_key", ENDED)
        return dialect.counted(len(prepared.input_ids))

    async def _health(self, send: Send) -> None:
        """Healthy while the table of cells is fresh; that needs event loop and database alike."""
        age_s = asyncio.get_running_loop().time() - self._cells_seen_at
        healthy = age_s < 5.0 and not self._is_superseded
        trouble = "superseded" if self._is_superseded else "no table of cells"
        state = {"status": "ok" if healthy else trouble, "name": self.name, **self.figures()}
        await respond(send, 200 if healthy else 503, orjson.dumps(state))

    def figures(self) -> dict[str, Any]:
        """What is going on. `tokens` are the unique ones of the sessions in memory, `bytes` what holds them."""
        spool, router = self.services.spool, self.services.router
        tokens, num_bytes = self.sessions.size()
        return {
            "epoch": self.services.identity.epoch,
            "proxies": router.num_proxies,
            "sessions": len(self.sessions),
            "calls": sum(router.num_calls.values()),
            "waiting": router.num_waiting,
            "spooled": spool.num_spooled,
            "tokenised": TOKENISED.count,
            "tokens": tokens,
            "bytes": num_bytes,
            "bytes_per_token": round(num_bytes / tokens, 2) if tokens else 0.0,
        }

    async def _watch_cells(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async for cells in self.services.store.watch_cells(CELLS_EVERY_S):
                    self.services.router.update(cells)
                    self.services.alarms.forget_gone()
                    self._cells_seen_at = loop.time()
            except psycopg.Error as error:
                log.warning("cells cannot be read: %s", error)
            await asyncio.sleep(0.5)

    async def _tidy(self) -> None:
        """Give memory back to the system, a moment after a large body has gone."""
        while True:
            await self._has_freed.wait()
            await asyncio.sleep(TIDY_AFTER_S)
            self._has_freed.clear()
            await self._in_thread(memory.give_back)

    async def _beat(self, identity: Identity) -> None:
        """Say that this process lives, learn how many others do, and stand back for a newer one of the same name."""
        while not self._is_superseded:
            try:
                num_alive = await self._ownership.beat(identity, self.figures())
                await self.sessions.abandon()
            except DATABASE_GONE as error:
                log.warning("the heartbeat is not written: %s", error)
            else:
                self._is_superseded = num_alive is None
                self.services.router.update(self.services.router.cells.values(), num_alive)
            await asyncio.sleep(BEAT_EVERY_S)
        log.error("another process runs as %s; this one (epoch %s) refuses all requests", self.name, identity.epoch)

    async def _watch_room(self, gauge: Gauge) -> None:
        while True:
            before = gauge.level
            try:
                await self._in_thread(gauge.measure)
            except OSError as error:
                log.warning("the disk cannot be looked at: %s", error)
            if Level.CRITICAL in (before, gauge.level) and before is not gauge.level:
                log.warning("recording %s", f"holds: {gauge.message}" if gauge.level is Level.CRITICAL else "goes on")
            await asyncio.sleep(ROOM_EVERY_S)

    async def _in_thread(self, work: Callable[..., Any], *values: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *values)

    async def _offload(self, work: Callable[..., Any], *values: Any) -> Any:
        """Run in a worker thread; what is wrong with a request comes back as a refusal."""
        try:
            return await self._in_thread(work, *values)
        except (BadRequest, bodies.TooMuch) as error:
            raise Refusal("bad_request", str(error)) from error

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Broken(Exception):
    """A request broke the proxy before it became a call; its body, unpacked, and why."""

    def __init__(self, raw: bytes, why: Exception) -> None:
        super().__init__()
        self.raw, self.why = raw, why


def _unavailable(why: str = "") -> Refusal:
    why = why or "the recording database does not answer"
    return Refusal("unavailable", f"{why}; nothing can be recorded, so nothing is sampled")


def _prepare(
    session: Session, dialect: Dialect, raw: bytes, headers: dict[str, str]
) -> tuple[ModelRequest, str, Prepared | None]:
    """Nothing is prepared of a request that is only the end of what it means."""
    request = _parse(dialect, raw)
    prepared = None if request.follows else _rendered(session, dialect, request, headers)
    return request, hashlib.sha256(raw).hexdigest(), prepared


def _rendered(session: Session, dialect: Dialect, request: ModelRequest, headers: dict[str, str]) -> Prepared:
    try:
        return session.prepare(request, headers)
    except TooLong as error:
        raise too_long(dialect, request, error.tokens, session.context_tokens) from error


def _count(session: Session, dialect: Dialect, raw: bytes) -> tuple[ModelRequest, str, Prepared]:
    request = _parse(dialect, raw)
    try:
        return request, hashlib.sha256(raw).hexdigest(), session.count(request)
    except TooLong as error:
        raise too_long(dialect, request, error.tokens, session.context_tokens) from error


def _parse(dialect: Dialect, raw: bytes) -> ModelRequest:
    try:
        body = bodies.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return dialect.read(body)
