"""Finished calls on their way into the database (docs/proxy.md, "When the database is gone").

A call that cannot be committed is tried again, under the same id, for a bounded time; meanwhile it takes room in a
spool. While the spool is full no further call is admitted. Nothing is acknowledged before it is committed. A database
whose disk is nearly full is left in peace: it counts as gone until there is room.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import psycopg

from agents.proxy.ownership import Identity
from agents.proxy.store import CommitResult, Store
from agents.room import Gauge, Level

log = logging.getLogger(__name__)

#: How long a finished call waits for a database that does not answer.
RECORD_WITHIN_S = 60.0
MAX_SPOOLED_CALLS = 512
MAX_SPOOLED_BYTES = 256 * 1024 * 1024
#: What a database that restarts, or a network that breaks, raises.
DATABASE_GONE = (psycopg.OperationalError, psycopg.InterfaceError)


class NotCommitted(Exception):
    """The database did not take the call in time: the client must not believe that it was made."""


@dataclass(slots=True)
class Spool:
    """Commits calls. `num_spooled` calls of `spooled_bytes` have met a database that does not answer, and wait."""

    store: Store
    within_s: float = RECORD_WITHIN_S
    max_calls: int = MAX_SPOOLED_CALLS
    max_bytes: int = MAX_SPOOLED_BYTES
    num_spooled: int = 0
    spooled_bytes: int = 0
    gauge: Gauge | None = None

    @property
    def lacks_room(self) -> bool:
        """Whether the disk of the database is so full that writes could end it."""
        return self.gauge is not None and self.gauge.level is Level.CRITICAL

    @property
    def lack(self) -> str:
        """What the database's disk lacks, in words; empty when that is not why nothing is recorded."""
        return self.gauge.message if self.gauge is not None and self.lacks_room else ""

    @property
    def is_full(self) -> bool:
        return self.lacks_room or self.num_spooled >= self.max_calls or self.spooled_bytes >= self.max_bytes

    async def commit(self, values: dict[str, Any], identity: Identity) -> CommitResult:
        """Commit an encoded call. Raises NotCommitted when the database stays away."""
        if not self.lacks_room:
            try:
                return await self.store.commit(values, identity)
            except DATABASE_GONE as error:
                log.warning("the database does not answer, a finished call waits: %s", error)
        size = len(values["body"]) + len(values["tokens"]) + len(values["messages"])
        self.num_spooled += 1
        self.spooled_bytes += size
        try:
            return await self._commit_later(values, identity)
        finally:
            self.num_spooled -= 1
            self.spooled_bytes -= size

    async def _commit_later(self, values: dict[str, Any], identity: Identity) -> CommitResult:
        loop = asyncio.get_running_loop()
        deadline, backoff_s = loop.time() + self.within_s, 0.1
        while True:
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, 2.0)
            try:
                if self.lacks_room:
                    raise psycopg.OperationalError(self.lack)
                return await self.store.commit(values, identity)
            except DATABASE_GONE as error:
                if loop.time() > deadline:
                    raise NotCommitted(f"the database has not answered for {self.within_s:.0f} s: {error}") from error
