"""The sessions of this process, by execution key."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

import psycopg

from agents.config import RunConfig
from agents.proxy.profiles import profile
from agents.proxy.rendering import rendering
from agents.proxy.session import Session, policy_folder
from agents.proxy.store import Store

log = logging.getLogger(__name__)

#: A session unused for so long is dropped once its execution has ended, and after ten times that in any case.
IDLE_S = 60.0


@dataclass(slots=True)
class Sessions:
    """Loads a session at its first request; the database stays the judge of whether a key is alive."""

    store: Store
    _by_key: dict[str, Session] = field(default_factory=dict)
    _loading: dict[str, asyncio.Future[Session | None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._by_key)

    async def get(self, key: str) -> Session | None:
        """The session of a key, None when the key is dead or unknown."""
        session = self._by_key.get(key)
        if session is None:
            return await self._load_once(key)
        session.used_at = asyncio.get_running_loop().time()
        if not await self.store.is_live(session.execution.id, session.execution.attempt):
            self._by_key.pop(key, None)
            return None
        return session

    async def sweep(self) -> None:
        """Forget sessions that nobody uses. A later request would rebuild them."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(IDLE_S / 2)
            for key, session in list(self._by_key.items()):
                idle_s = loop.time() - session.used_at
                if session.num_in_flight or idle_s < IDLE_S:
                    continue
                try:
                    if idle_s < 10 * IDLE_S and await self.store.is_live(
                        session.execution.id, session.execution.attempt
                    ):
                        continue
                except psycopg.OperationalError as error:
                    log.warning("sessions are kept, the database does not answer: %s", error)
                    break
                self._by_key.pop(key, None)

    async def _load_once(self, key: str) -> Session | None:
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.ensure_future(self._load(key))
            loading.add_done_callback(lambda _: self._loading.pop(key, None))
        return await asyncio.shield(loading)

    async def _load(self, key: str) -> Session | None:
        row = await self.store.find(key) if key else None
        if row is None:
            return None
        config = RunConfig.model_validate(row.config)
        loop = asyncio.get_running_loop()
        session = Session(
            execution=row,
            config=config,
            profile=profile(config.harness),
            rendering=await loop.run_in_executor(None, rendering, policy_folder(config)),
            used_at=loop.time(),
        )
        rows = await self.store.calls(row.id, row.attempt)
        if rows:
            await loop.run_in_executor(None, session.restore, rows)
        self._by_key[key] = session
        return session
