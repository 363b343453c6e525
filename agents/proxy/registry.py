"""The sessions of this process, by execution key (docs/proxy.md, "Memory")."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from psycopg_pool import PoolTimeout

from agents.config import AgentSettings
from agents.proxy.forward import Elsewhere
from agents.proxy.ownership import Identity, Ownership
from agents.proxy.profiles import profile
from agents.proxy.rendering import rendering
from agents.proxy.session import Session, policy_folder
from agents.proxy.spool import DATABASE_GONE
from agents.proxy.store import ExecutionRow, Store

log = logging.getLogger(__name__)

#: A session unused for so long is dropped once its execution has ended, and after ten times that in any case.
IDLE_S = 60.0
#: A session used within this time may be about to get a call.
IN_USE_S = 5.0
#: Sessions that are rebuilt at once: after a restart every client comes back, and each brings its history into memory.
MAX_LOADING = 8
#: Requests that ask the database for their session at once; the others wait here and not for a connection in vain.
MAX_ASKING = 32
#: How long a request waits for its turn while the database answers nobody.
ANSWER_WITHIN_S = 8.0
#: Above so many bytes of tokens, sessions without a call in flight are dropped, the longest unused first.
MAX_BYTES = 2 << 30


@dataclass(slots=True)
class Sessions:
    """Loads a session at its first request; the database stays the judge of whether a key is alive.

    Dropping one loses nothing: a later request rebuilds it from the recorded calls.
    """

    store: Store
    ownership: Ownership
    identity: Identity
    offload: Callable[..., Awaitable[Any]]
    max_bytes: int = MAX_BYTES
    _by_key: dict[str, Session] = field(default_factory=dict)
    _loading: dict[str, asyncio.Future[Session | None]] = field(default_factory=dict)
    _load_room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_LOADING))
    _answered_at: float = 0.0
    _ask_room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_ASKING))

    def __len__(self) -> int:
        return len(self._by_key)

    def size(self) -> tuple[int, int]:
        """(unique tokens held, bytes that hold them)."""
        sizes = [session.size() for session in self._by_key.values()]
        return sum(tokens for tokens, _ in sizes), sum(num_bytes for _, num_bytes in sizes)

    async def get(self, key: str) -> Session | None:
        """The session of a key, None when the key is dead or unknown. Raises Elsewhere when it is not ours."""
        await self._turn_to_ask()
        try:
            session = await self._get(key)
            self._answered_at = asyncio.get_running_loop().time()
            return session
        finally:
            self._ask_room.release()

    async def _turn_to_ask(self) -> None:
        """Wait while others ask; no longer than the database answers them. Raises PoolTimeout."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while True:
            try:
                await asyncio.wait_for(self._ask_room.acquire(), 1.0)
                return
            except TimeoutError:
                if loop.time() - max(started, self._answered_at) > ANSWER_WITHIN_S:
                    raise PoolTimeout("requests before this one have no answer of the database") from None

    async def _get(self, key: str) -> Session | None:
        session = self._by_key.get(key)
        if session is None:
            return await self._load_once(key)
        session.used_at = asyncio.get_running_loop().time()
        execution = session.execution
        if not await self.store.is_live(execution.id, execution.attempt, self.identity.id):
            self._by_key.pop(key, None)
            row = await self.store.find(key)
            is_same = row is not None and (row.id, row.attempt) == (execution.id, execution.attempt)
            return await self._load_once(key) if is_same else None
        return session

    async def sweep(self) -> None:
        """Forget sessions that nobody uses. A later request would rebuild them."""
        while True:
            await asyncio.sleep(IDLE_S / 12)
            now = asyncio.get_running_loop().time()
            self.shed(now)
            await self._drop_idle(now)

    async def abandon(self) -> None:
        """Stop calls that nobody reads and whose execution is over: their engines would sample for nothing."""
        for session in list(self._by_key.values()):
            calls = session.live.unread()
            execution = session.execution
            if calls and not await self.store.is_live(execution.id, execution.attempt, self.identity.id):
                for call in calls:
                    call.abandon("its execution ended while it was sampled")

    def shed(self, now: float) -> None:
        """Keep below `max_bytes` as far as idle sessions allow."""
        _, num_bytes = self.size()
        for key, session in sorted(self._by_key.items(), key=lambda item: item[1].used_at):
            if num_bytes <= self.max_bytes:
                return
            if not session.live.num_in_flight and now - session.used_at > IN_USE_S:
                num_bytes -= session.size()[1]
                del self._by_key[key]

    async def _drop_idle(self, now: float) -> None:
        for key, session in list(self._by_key.items()):
            idle_s = now - session.used_at
            if session.live.num_in_flight or idle_s < IDLE_S:
                continue
            execution = session.execution
            try:
                if idle_s < 10 * IDLE_S and await self.store.is_live(execution.id, execution.attempt, self.identity.id):
                    continue
            except DATABASE_GONE as error:
                log.warning("sessions are kept, the database does not answer: %s", error)
                return
            if not session.live.num_in_flight:
                self._by_key.pop(key, None)

    async def _load_once(self, key: str) -> Session | None:
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.ensure_future(self._load_in_turn(key))
            loading.add_done_callback(lambda _: self._loading.pop(key, None))
        return await asyncio.shield(loading)

    async def _load_in_turn(self, key: str) -> Session | None:
        async with self._load_room:
            return await self._load(key)

    async def _load(self, key: str) -> Session | None:
        row = await self._owned(key) if key else None
        if row is None:
            return None
        config = AgentSettings.model_validate(row.config)
        session = Session(
            execution=row,
            config=config,
            profile=profile(config.harness),
            rendering=await self.offload(rendering, policy_folder(config)),
            used_at=asyncio.get_running_loop().time(),
        )
        rows = await self.store.calls(row.id, row.attempt)
        if rows:
            await self.offload(session.restore, rows)
        self._by_key[key] = session
        return session

    async def _owned(self, key: str) -> ExecutionRow | None:
        """The execution of a key, which is ours now: it was, or had no owner, or a dead one."""
        while (row := await self.store.find(key)) is not None and row.proxy != self.identity.id:
            if row.proxy is not None and not row.owner_is_dead:
                raise Elsewhere(row.owner_address)
            if await self.ownership.take(self.identity, row.id, row.attempt) and row.proxy is not None:
                log.warning("execution %s is taken over from a proxy that is dead", row.id)
        return row
