"""Every statement that the proxy runs on the rows of runs; names of tables and columns are those of Django's models."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

import orjson
import psycopg
from psycopg.rows import dict_row, namedtuple_row
from psycopg_pool import AsyncConnectionPool

from agents.channels import CELLS_CHANNEL
from agents.core.bounds import storable
from agents.eventlog import appending
from agents.proxy.ownership import DEAD_AFTER_S, Identity

APPLICATION_NAME = "gyre-proxy"
#: How long a statement waits for a free connection; then the database counts as gone.
CONNECTION_WITHIN_S = 5.0

_FIND = """
SELECT e.id, e.attempt, e.run_id, r.config, g.kind = 'evaluation' AS is_evaluation, g.evaluation, e.proxy_id,
    COALESCE(p.address, ''), COALESCE(p.seen_at < clock_timestamp() - make_interval(secs => %(dead_s)s), FALSE),
    (t.config #>> '{agent,timeout_s}')::float8
FROM agents_execution e JOIN agents_run r ON r.id = e.run_id JOIN agents_group g ON g.id = e.group_id
    JOIN agents_task t ON t.id = g.task_id LEFT JOIN agents_proxyprocess p ON p.id = e.proxy_id
WHERE e.key_hash = %(key_hash)b AND e.state = 'running'
"""

_IS_LIVE = """
SELECT 1 FROM agents_execution
WHERE id = %(execution)s AND attempt = %(attempt)s AND state = 'running' AND proxy_id = %(proxy)s
"""

_CALLS = """
SELECT c.number, c.parent_number, c.prefix_tokens, c.tokens, c.messages, c.reply, c.role, c.conversation, c.malformed,
    c.finish_reason, c.dialect, c.request_hash, COALESCE(length(b.body), 0) AS archived_bytes
FROM agents_call c JOIN agents_execution e ON e.id = c.execution_id
    LEFT JOIN agents_requestbody b ON b.run_id = e.run_id AND b.hash = c.request_hash
WHERE c.execution_id = %(execution)s AND c.attempt = %(attempt)s ORDER BY c.number
"""

_THREAD = """
WITH RECURSIVE thread AS (
    SELECT number, parent_number, prefix_tokens, input_tokens, messages, reply FROM agents_call
    WHERE execution_id = %(execution)s AND attempt = %(attempt)s AND uid = %(uid)s AND state <> 'failed'
    UNION ALL
    SELECT c.number, c.parent_number, c.prefix_tokens, c.input_tokens, c.messages, c.reply
    FROM agents_call c JOIN thread t ON c.number = t.parent_number
    WHERE c.execution_id = %(execution)s AND c.attempt = %(attempt)s
)
SELECT * FROM thread ORDER BY number
"""

# The share lock makes a call and the end of its execution exclude each other: recorded before it, or refused. A call
# is refused too when its proxy is no longer the owner. `there` is the call that had the number before this statement.
_RECORD = """
WITH live AS (
    SELECT id FROM agents_execution
    WHERE id = %(execution)s AND attempt = %(attempt)s AND state IN ('running', 'evaluating')
        AND proxy_id = %(proxy)s
        AND EXISTS (SELECT 1 FROM agents_proxyprocess p WHERE p.id = %(proxy)s AND p.epoch = %(epoch)s)
    FOR SHARE
), archived AS (
    INSERT INTO agents_requestbody (run_id, hash, body, created_at)
    SELECT %(run)s, %(request_hash)s, %(body)b, now() FROM live WHERE length(%(body)b) > 0
    ON CONFLICT (run_id, hash) DO NOTHING
), recorded AS (
    INSERT INTO agents_call (
        execution_id, attempt, number, uid, parent_number, prefix_tokens, input_tokens, output_tokens, tokens, state,
        dialect, role, conversation, branch_reason, false_fork, departure, malformed, finish_reason, sampling,
        versions, request_hash, messages, reply, model_asked, cell, cached_tokens, error, started_at, first_token_s,
        duration_s, held_s, committed_at)
    SELECT id, %(attempt)s, %(number)s, %(uid)s, %(parent_number)s, %(prefix_tokens)s, %(input_tokens)s,
        %(output_tokens)s, %(tokens)b, %(state)s, %(dialect)s, %(role)s, %(conversation)s, %(branch_reason)s,
        %(false_fork)s, %(departure)s::jsonb, %(malformed)s, %(finish_reason)s, %(sampling)s::jsonb,
        %(versions)s::jsonb, %(request_hash)s,
        %(messages)s::jsonb, %(reply)s::jsonb, %(model_asked)s, %(cell)s, %(cached_tokens)s, %(error)s,
        %(started_at)s, %(first_token_s)s, %(duration_s)s, %(held_s)s, now()
    FROM live
    ON CONFLICT (execution_id, attempt, number) DO NOTHING
    RETURNING 1
){events}
SELECT EXISTS (SELECT 1 FROM live), EXISTS (SELECT 1 FROM recorded), (
    SELECT uid FROM agents_call
    WHERE execution_id = %(execution)s AND attempt = %(attempt)s AND number = %(number)s) AS there
"""

# Events of the call in the run's log, in the same transaction: the run's row is locked last.
_RECORD_WITH_EVENTS = _RECORD.format(events=f", {appending(only_if='EXISTS (SELECT 1 FROM recorded)')}")
_RECORD = _RECORD.format(events="")

_HELD = """
UPDATE agents_execution SET held_s = held_s + %(held_s)s
WHERE id = %(execution)s AND attempt = %(attempt)s AND state = 'running'
"""

# What a later request showed of earlier ones. A call that compacts leaves recorded tokens by its nature.
_REVISE = """
UPDATE agents_call c SET role = r.role,
    branch_reason = CASE WHEN r.role LIKE '%%-summary' AND (c.false_fork OR c.branch_reason <> '') THEN 'compaction'
        ELSE c.branch_reason END,
    false_fork = c.false_fork AND r.role NOT LIKE '%%-summary' AND r.role <> 'auxiliary',
    departure = CASE WHEN r.role LIKE '%%-summary' OR r.role = 'auxiliary' THEN '{}'::jsonb ELSE c.departure END
FROM unnest(%(numbers)s::int[], %(roles)s::text[]) AS r (number, role)
WHERE c.execution_id = %(execution)s AND c.attempt = %(attempt)s AND c.number = r.number AND EXISTS (
    SELECT 1 FROM agents_execution e
    WHERE e.id = %(execution)s AND e.attempt = %(attempt)s AND e.state IN ('running', 'evaluating'))
"""

# An alarm is raised when it does not stand already, and cleared when it does.
_ALARM = f"""
WITH newest AS (
    SELECT COALESCE((
        SELECT kind FROM agents_runevent
        WHERE run_id = %(run)s AND kind IN ('alarm_raised', 'alarm_cleared') AND payload ->> 'code' = %(code)s
        ORDER BY seq DESC LIMIT 1), 'alarm_cleared') AS kind
), {appending(only_if="(SELECT kind FROM newest) <> %(kind)s")}
SELECT event_seq FROM numbered
"""

_CELLS = """
SELECT c.id, c.run_id, c.index, c.epoch, c.engine_url, c.engine_key, c.weight_version, c.weight_hash, c.evaluation,
    c.role = 'rollout' AND c.desired_role = 'rollout' AND c.phase <> 'weights' AS routable
FROM scheduler_cell c JOIN agents_run r ON r.id = c.run_id
WHERE c.engine_url <> '' AND c.role IN ('rollout', 'switching')
    AND r.state IN ('starting', 'running', 'paused', 'stopping')
"""


class CommitResult(Enum):
    """What became of a call that was to be committed."""

    DONE = "done"
    #: Its attempt has ended or been superseded, or this proxy is not its owner.
    REFUSED = "refused"
    #: Another call has its number.
    NUMBER_TAKEN = "number taken"


@dataclass(frozen=True, slots=True)
class ExecutionRow:
    """The execution that a key opens. `proxy`: its owner; `owner_is_dead`: unheard of for long."""

    id: int
    attempt: int
    run_id: int
    config: dict[str, Any]
    is_evaluation: bool
    evaluation: int | None
    proxy: int | None = None
    owner_address: str = ""
    owner_is_dead: bool = False
    #: The task's own limit of the harness, where it has one.
    task_timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CellRow:
    id: int
    run_id: int
    index: int
    epoch: int
    engine_url: str
    engine_key: str
    weight_version: int
    weight_hash: str
    evaluation: int | None
    routable: bool


@dataclass(slots=True)
class CallRow:
    """One row of agents_call, with the raw request as the archive keeps it."""

    execution: int
    attempt: int
    run: int
    number: int
    uid: str
    parent_number: int | None
    prefix_tokens: int
    input_tokens: int
    output_tokens: int
    tokens: bytes
    state: str
    dialect: str
    role: str
    conversation: str
    branch_reason: str
    false_fork: bool
    departure: dict[str, Any]
    malformed: bool
    finish_reason: str
    sampling: dict[str, Any]
    versions: list[list[int]]
    request_hash: str
    #: The raw request, compressed; empty where it is not kept.
    body: bytes
    #: [kind, payload] of each event that the call is worth in the run's log.
    events: list[list[Any]]
    messages: list[dict[str, Any]]
    reply: dict[str, Any]
    model_asked: str
    cell: int | None
    cached_tokens: int
    error: str
    started_at: datetime
    first_token_s: float | None
    duration_s: float
    held_s: float

    def encode(self) -> dict[str, Any]:
        """As the database takes it. Work for a thread, not for the event loop."""
        values = {name: getattr(self, name) for name in CallRow.__slots__}
        values |= {name: _json(values[name]) for name in ("departure", "sampling", "versions", "messages", "reply")}
        values |= {name: storable(values[name]) for name in ("model_asked", "error", "conversation")}
        events = values.pop("events")
        if events:
            values["events"] = _json(events)
        return values


@dataclass(slots=True)
class Store:
    """The proxy's database. Statements commit by themselves; a pool of connections shares the work."""

    database_url: str
    pool_size: int = 6
    connection_within_s: float = CONNECTION_WITHIN_S
    pool: AsyncConnectionPool[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.pool = AsyncConnectionPool(
            self.database_url,
            min_size=1,
            max_size=self.pool_size,
            open=False,
            timeout=self.connection_within_s,
            reconnect_timeout=self.connection_within_s,
            kwargs={"autocommit": True, "prepare_threshold": 1, "application_name": APPLICATION_NAME},
        )

    async def open(self) -> None:
        await self.pool.open()

    async def close(self) -> None:
        await self.pool.close()

    async def find(self, key: str) -> ExecutionRow | None:
        """The running execution whose attempt has this key."""
        row = await self._one(_FIND, {"key_hash": key_hash(key), "dead_s": DEAD_AFTER_S})
        return None if row is None else ExecutionRow(*row)

    async def is_live(self, execution: int, attempt: int, proxy: int) -> bool:
        """Whether the attempt runs and belongs to this proxy."""
        values = {"execution": execution, "attempt": attempt, "proxy": proxy}
        return await self._one(_IS_LIVE, values) is not None

    async def calls(self, execution: int, attempt: int) -> list[Any]:
        """Recorded calls of an attempt, oldest first."""
        async with self.pool.connection() as connection:
            cursor = connection.cursor(row_factory=namedtuple_row, binary=True)
            await cursor.execute(_CALLS, {"execution": execution, "attempt": attempt})
            found: list[Any] = await cursor.fetchall()
            return found

    async def thread(self, execution: int, attempt: int, uid: str) -> list[Any]:
        """What was said up to a call: the calls that it builds on and itself, oldest first; none if it is unknown."""
        async with self.pool.connection() as connection:
            cursor = connection.cursor(row_factory=namedtuple_row)
            await cursor.execute(_THREAD, {"execution": execution, "attempt": attempt, "uid": uid})
            found: list[Any] = await cursor.fetchall()
            return found

    async def commit(self, values: dict[str, Any], identity: Identity) -> CommitResult:
        """Commit an encoded call. Repeating it after a lost answer is harmless."""
        values = values | {"proxy": identity.id, "epoch": identity.epoch}
        while True:
            is_live, is_new, there = await self._one(_RECORD_WITH_EVENTS if "events" in values else _RECORD, values)
            if is_new or (is_live and there == values["uid"]):
                return CommitResult.DONE
            if not is_live:
                return CommitResult.REFUSED
            if there is not None:
                return CommitResult.NUMBER_TAKEN
            # The call in its place was committed while this statement ran: read again.

    async def revise(self, execution: int, attempt: int, roles: Mapping[int, str]) -> None:
        """Set the roles of recorded calls that a later request showed to be others: call number -> role."""
        values = {"execution": execution, "attempt": attempt, "numbers": list(roles), "roles": list(roles.values())}
        async with self.pool.connection() as connection:
            await connection.execute(_REVISE, values)

    async def add_held(self, execution: int, attempt: int, held_s: float) -> bool:
        """Add to the time that calls were held for scheduling; False when the attempt has ended."""
        async with self.pool.connection() as connection:
            cursor = await connection.execute(_HELD, {"execution": execution, "attempt": attempt, "held_s": held_s})
            return bool(cursor.rowcount)

    async def alarm(self, run_id: int, kind: str, payload: dict[str, str]) -> None:
        """Raise or clear the alarm of this code in a run's log; nothing happens where that is so already."""
        values = {"run": run_id, "kind": kind, "code": payload["code"], "events": _json([[kind, payload]])}
        async with self.pool.connection() as connection:
            await connection.execute(_ALARM, values)

    async def watch_cells(self, interval_s: float) -> AsyncIterator[list[CellRow]]:
        """The cells with an engine, at once, after every notification, and every `interval_s`."""
        async with await psycopg.AsyncConnection.connect(
            self.database_url, autocommit=True, application_name=APPLICATION_NAME
        ) as connection:
            await connection.execute(f"LISTEN {CELLS_CHANNEL}")
            cursor = connection.cursor(row_factory=dict_row)
            while True:
                await cursor.execute(_CELLS, prepare=True)
                yield [CellRow(**row) for row in await cursor.fetchall()]
                async for _ in connection.notifies(timeout=interval_s, stop_after=1):
                    pass

    async def _one(self, statement: str, values: dict[str, Any]) -> Any:
        async with self.pool.connection() as connection:
            cursor = await connection.execute(statement, values)
            return await cursor.fetchone()


def key_hash(key: str) -> bytes:
    """What the database keeps of an execution key."""
    return hashlib.sha256(key.encode()).digest()


def _json(value: Any) -> str:
    """JSON that jsonb takes: it cannot hold the character U+0000."""
    text = orjson.dumps(value)
    return (orjson.dumps(_without_nul(value)) if b"\\u0000" in text else text).decode()


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(key): _without_nul(item) for key, item in value.items()}
    return [_without_nul(item) for item in value] if isinstance(value, list | tuple) else value
