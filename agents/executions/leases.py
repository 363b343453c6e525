"""Executions are taken from rows by a lease on the database's clock; messages only say that there may be some.

Rows are locked in the order execution, group, run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections, connection
from django.db.models.functions import Now
from psycopg_pool import PoolTimeout

from agents.config import AgentSettings
from agents.core.outcome import HarnessEnd, Reason
from agents.executions import lease_rows, outages, proxies
from agents.models import Execution, Run

LEASE_S = 30.0
_OUTLAST_S = 60.0
_RETRY_S = 0.5
T = TypeVar("T")
log = logging.getLogger(__name__)
State = Execution.State


@dataclass(frozen=True)
class Kept:
    """An archive of an attempt's files; `path` is empty when nothing was kept."""

    attempt: int
    path: str


@dataclass(frozen=True)
class Lease:
    """A leased attempt and what is needed to work on it. `key` is known to the worker alone, and only while it runs."""

    execution_id: int
    attempt: int
    run_id: int
    task_path: Path
    task_digest: str
    config: AgentSettings
    key: str = ""
    #: Where the proxy that owns the attempt is reached; None: at the worker's default.
    proxy_socket: Path | None = None
    end: HarnessEnd = field(default_factory=HarnessEnd)
    #: What was kept of the execution's files before this lease.
    kept: Kept | None = None

    def rows(self) -> Any:
        """The execution's row while this attempt is still the live one."""
        return Execution.objects.filter(
            pk=self.execution_id, attempt=self.attempt, state__in=(State.RUNNING, State.EVALUATING)
        )


@contextmanager
def brief_connection() -> Iterator[None]:
    """Give the database connection back when the block ends: a worker has more threads than there are connections."""
    try:
        yield
    finally:
        close_old_connections()


def persistently(action: Callable[[], T]) -> T:
    """Outlast a restart of the database. The action may be repeated after a commit of unknown outcome."""
    deadline = time.monotonic() + _OUTLAST_S
    while True:
        try:
            with brief_connection():
                return action()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > deadline:
                raise
            replace_broken_connections()
            log.warning("database: %s; trying again", error)
            time.sleep(_RETRY_S)


def replace_broken_connections() -> None:
    """After a restart of the database. Connections are not asked whether they work before each use."""
    with suppress(DatabaseError, PoolTimeout):
        connection.close()
    if pool := connection.pool:
        pool.check()


def lease_queued(owner: str, limit: int) -> list[Lease]:
    """Take the oldest queued executions, at most `limit`: each runs, under a key of its own (docs/proxy.md)."""
    keys = [secrets.token_urlsafe(24) for _ in range(limit)]
    with brief_connection():
        chosen = proxies.spread(limit)
        values = {
            "owner": owner,
            "lease_s": LEASE_S,
            "limit": limit,
            "keys": [hashlib.sha256(key.encode()).digest() for key in keys],
            "proxies": [proxy.id if proxy else None for proxy in chosen],
        }
        rows = _fetched(lease_rows.QUEUED, values)
    sockets = [Path(proxy.socket) if proxy else None for proxy in chosen]
    return [
        _lease(row, key=keys[row.place - 1], proxy_socket=sockets[row.place - 1])
        for row in sorted(rows, key=lambda row: row.place)
    ]


def lease_evaluations(owner: str, limit: int) -> list[Lease]:
    """Take executions whose harness has ended and that nobody evaluates: those that have waited longest."""
    with brief_connection():
        rows = _fetched(
            lease_rows.EVALUATIONS,
            {"owner": owner, "lease_s": LEASE_S, "limit": limit, "live": [str(state) for state in Run.LIVE_STATES]},
        )
    return [_lease(row, end=_end(row), kept=_kept(row)) for row in rows]


def _fetched(statement: str, values: dict[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row_type = namedtuple("Row", [column.name for column in cursor.description])  # type: ignore[misc]  # only the query knows them
        return [row_type(*values) for values in cursor.fetchall()]


def _lease(row: Any, **more: Any) -> Lease:
    return Lease(
        execution_id=row.execution,
        attempt=row.attempt,
        run_id=row.run,
        task_path=Path(row.task_path),
        task_digest=row.task_digest,
        config=_config(row.config),
        **more,
    )


@lru_cache(maxsize=64)
def _config(text: str) -> AgentSettings:
    """Executions of one run share it."""
    return AgentSettings.parse(json.loads(text))


def _end(row: Any) -> HarnessEnd:
    return HarnessEnd(row.exit_code, Reason(row.timeout) if row.timeout else None, row.malformed, row.hit_turn_limit)


def _kept(row: Any) -> Kept | None:
    return None if row.kept_attempt is None else Kept(row.kept_attempt, row.kept_path)


def harness_started(lease: Lease, sandbox: dict[str, Any], harness: dict[str, object]) -> bool:
    """False when the attempt is no longer the live one."""
    return persistently(lambda: bool(lease.rows().update(harness_started_at=Now(), sandbox=sandbox, harness=harness)))


def held_s(lease: Lease) -> float:
    """How long the proxy has held calls of this attempt, or was gone; not the agent's time."""
    return persistently(lambda: outages.held_s(lease.execution_id, lease.attempt))


def harness_ended(lease: Lease, end: HarnessEnd, text: str, evaluator: str = "") -> Lease | None:
    """The harness has ended: no key any more, the file tree stays. Its calls that could not be read are counted as the
    proxy saw them: most harnesses do not count them.

    Gives the lease under which the attempt is evaluated by `evaluator`; without one no one holds it, and the evaluators
    are to take it. None when the attempt is not the live one.
    """
    values = {
        "execution": lease.execution_id,
        "attempt": lease.attempt,
        "owner": evaluator,
        "lease_s": LEASE_S,
        "exit_code": end.exit_code,
        "log": text,
        "malformed": end.num_malformed_calls,
        "hit_turn_limit": end.hit_turn_limit,
        "timeout": end.timeout or "",
    }
    rows = persistently(lambda: _fetched(lease_rows.HARNESS_ENDED, values))
    if not rows:
        return None
    counted = replace(end, num_malformed_calls=rows[0].malformed)
    return replace(lease, key="", end=counted, kept=_kept(rows[0]))


def renew(owner: str, execution_ids: list[int]) -> set[tuple[int, int]]:
    """Which of these executions this worker still holds, as (execution, attempt); their leases are renewed."""
    values = {"owner": owner, "lease_s": LEASE_S, "executions": execution_ids}
    with brief_connection():
        return {(row.execution, row.attempt) for row in _fetched(lease_rows.RENEWED, values)}


def give_up(owner: str, reason: str = "") -> None:
    """Let every lease of this worker expire now; the scheduler has the executions started again. Without an
    owner the attempts do not count as lost."""
    with brief_connection():
        held = Execution.objects.filter(lease_owner=owner, lease_expires_at__isnull=False)
        held.update(lease_owner="", lease_expires_at=Now(), reason=reason)


def give_up_one(lease: Lease, reason: str = "") -> None:
    """Let the lease of one attempt expire now. `reason` stays with the execution until it is finished."""
    with brief_connection():
        lease.rows().update(lease_owner="", lease_expires_at=Now(), reason=reason)


def live_attempts(owner: str, execution_ids: list[int]) -> set[tuple[int, int]]:
    """Which of these (execution, attempt) pairs this worker still holds."""
    with brief_connection():
        rows = Execution.objects.filter(
            pk__in=execution_ids, lease_owner=owner, state__in=(State.RUNNING, State.EVALUATING)
        )
        return set(rows.values_list("pk", "attempt"))
