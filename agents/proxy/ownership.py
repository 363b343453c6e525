"""Which executions are this process's: its identity, its heartbeat, and taking over from a dead owner (docs/proxy.md).

`agents_execution.proxy_id` names the owner; it is written with the lease. A process that starts under a name raises the
epoch of that name, so what an older process still says is refused in SQL (agents.proxy.store).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg_pool import AsyncConnectionPool

#: An owner unheard of for so long may be replaced by the proxy that its harness reaches.
DEAD_AFTER_S = 30.0
#: Proxies heard of within this time share the cells' room.
ALIVE_WITHIN_S = 10.0

#: A heartbeat that comes so much later than the one before ends an absence.
LATE_S = 3.0
#: An absence counts for so long (agents.executions.outages).
ABSENT_AT_MOST_S = 3600.0

# While their proxy was gone, harnesses could do nothing: its absence becomes held time of its executions.
_REGISTER = """
WITH held AS (
    UPDATE agents_execution e
    SET held_s = e.held_s + LEAST(%(most)s, GREATEST(0, EXTRACT(epoch FROM
        clock_timestamp() - GREATEST(p.seen_at, e.launched_at))))
    FROM agents_proxyprocess p WHERE p.name = %(name)s AND e.proxy_id = p.id AND e.state = 'running'
)
INSERT INTO agents_proxyprocess (name, epoch, socket, address, pid, started_at, seen_at, figures)
VALUES (%(name)s, 1, %(socket)s, %(address)s, %(pid)s, clock_timestamp(), clock_timestamp(), '{}')
ON CONFLICT (name) DO UPDATE SET epoch = agents_proxyprocess.epoch + 1, socket = EXCLUDED.socket,
    address = EXCLUDED.address, pid = EXCLUDED.pid, started_at = EXCLUDED.started_at, seen_at = EXCLUDED.seen_at,
    stopped_at = NULL
RETURNING id, epoch
"""

_BEAT = """
WITH held AS (
    UPDATE agents_execution e
    SET held_s = e.held_s + LEAST(%(most)s, GREATEST(0, EXTRACT(epoch FROM
        clock_timestamp() - GREATEST(p.seen_at, e.launched_at))))
    FROM agents_proxyprocess p WHERE p.id = %(id)s AND p.epoch = %(epoch)s AND e.proxy_id = p.id
        AND p.seen_at < clock_timestamp() - make_interval(secs => %(late_s)s) AND e.state = 'running'
)
UPDATE agents_proxyprocess SET seen_at = clock_timestamp(), figures = %(figures)s::jsonb
WHERE id = %(id)s AND epoch = %(epoch)s
RETURNING (
    SELECT count(*) FROM agents_proxyprocess other WHERE other.id <> %(id)s AND other.stopped_at IS NULL
    AND other.seen_at > clock_timestamp() - make_interval(secs => %(alive_s)s))
"""

_STOP = "UPDATE agents_proxyprocess SET stopped_at = clock_timestamp() WHERE id = %(id)s AND epoch = %(epoch)s"

_TAKE = """
UPDATE agents_execution e SET proxy_id = %(id)s, held_s = e.held_s + COALESCE((
    SELECT LEAST(%(most)s, GREATEST(0, EXTRACT(epoch FROM
        clock_timestamp() - GREATEST(owner.seen_at, e.launched_at))))
    FROM agents_proxyprocess owner WHERE owner.id = e.proxy_id), 0)
WHERE e.id = %(execution)s AND e.attempt = %(attempt)s AND e.state = 'running' AND (e.proxy_id IS NULL OR EXISTS (
    SELECT 1 FROM agents_proxyprocess owner WHERE owner.id = e.proxy_id
    AND owner.seen_at < clock_timestamp() - make_interval(secs => %(dead_s)s)))
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """The row that this process holds. `epoch` distinguishes it from older processes of the same name."""

    id: int
    name: str
    epoch: int


@dataclass(slots=True)
class Ownership:
    """Statements about the table of proxies."""

    pool: AsyncConnectionPool[Any]

    async def register(self, name: str, socket: str, address: str) -> Identity:
        values = {"name": name, "socket": socket, "address": address, "pid": os.getpid(), "most": ABSENT_AT_MOST_S}
        async with self.pool.connection() as connection:
            row = await (await connection.execute(_REGISTER, values)).fetchone()
        assert row is not None
        return Identity(row[0], name, row[1])

    async def beat(self, identity: Identity, figures: dict[str, Any]) -> int | None:
        """Write a heartbeat. Returns how many proxies are alive, None when another one has taken its name."""
        values = {
            "id": identity.id,
            "epoch": identity.epoch,
            "figures": orjson.dumps(figures).decode(),
            "alive_s": ALIVE_WITHIN_S,
            "late_s": LATE_S,
            "most": ABSENT_AT_MOST_S,
        }
        async with self.pool.connection() as connection:
            row = await (await connection.execute(_BEAT, values)).fetchone()
        return None if row is None else int(row[0]) + 1

    async def stop(self, identity: Identity) -> None:
        """An orderly end: this proxy no longer counts among the living."""
        async with self.pool.connection(timeout=2.0) as connection:
            await connection.execute(_STOP, {"id": identity.id, "epoch": identity.epoch})

    async def take(self, identity: Identity, execution: int, attempt: int) -> bool:
        """Become the owner of an execution that has none, or a dead one; False when somebody else was faster."""
        values = {
            "id": identity.id,
            "execution": execution,
            "attempt": attempt,
            "dead_s": DEAD_AFTER_S,
            "most": ABSENT_AT_MOST_S,
        }
        async with self.pool.connection() as connection:
            return bool((await connection.execute(_TAKE, values)).rowcount)
