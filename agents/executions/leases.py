"""Executions are taken from rows by a lease on the database's clock; messages only say that there may be some.

Rows are locked in the order execution, group, run.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, close_old_connections, connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from agents import events
from agents.actions.finish_execution import harness_end
from agents.config import RunConfig, parse
from agents.core.outcome import HarnessEnd
from agents.core.roles import Role
from agents.executions import outages, proxies
from agents.models import Call, Execution, Group, Run

LEASE_S = 30.0
_OUTLAST_S = 60.0
_RETRY_S = 0.5
T = TypeVar("T")
log = logging.getLogger(__name__)
State = Execution.State


@dataclass(frozen=True)
class Lease:
    """A leased attempt and what is needed to work on it. `key` is known to the worker alone, and only while it runs."""

    execution_id: int
    attempt: int
    run_id: int
    task_path: Path
    task_digest: str
    config: RunConfig
    key: str = ""
    #: Where the proxy that owns the attempt is reached; None: at the worker's default.
    proxy_socket: Path | None = None
    end: HarnessEnd = field(default_factory=HarnessEnd)

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
            connection.close()
            if time.monotonic() > deadline:
                raise
            log.warning("database: %s; trying again", error)
            time.sleep(_RETRY_S)


def expiry() -> Any:
    return Now() + timedelta(seconds=LEASE_S)


def lease_next(owner: str) -> Lease | None:
    """Take the oldest queued execution: it runs, under a key of its own (proxy.md "Address and identity")."""
    key = secrets.token_urlsafe(24)
    with brief_connection(), transaction.atomic():
        execution = _first(Q(state=State.QUEUED, run__state__in=(Run.State.STARTING, Run.State.RUNNING)), "queued_at")
        if execution is None:
            return None
        execution.proxy = proxies.choose()
        Execution.objects.filter(pk=execution.pk).update(
            state=State.RUNNING,
            proxy=execution.proxy,
            lease_owner=owner,
            lease_expires_at=expiry(),
            key_hash=hashlib.sha256(key.encode()).digest(),
            launched_at=Now(),
            harness_started_at=None,
            harness_ended_at=None,
            harness_log="",
            held_s=0.0,
            sandbox={},
            harness={},
        )
        if execution.attempt == 1 and execution.group.kind == Group.Kind.TRAINING:
            Run.objects.filter(pk=execution.run_id).update(launched=F("launched") + 1)
        payload = {"execution": execution.pk, "group": execution.group_id, "attempt": execution.attempt}
        events.record(execution.run_id, events.EventKind.EXECUTION_LAUNCHED, payload)
        return _lease(execution, key)


def lease_evaluation(owner: str) -> Lease | None:
    """Take an execution whose harness has ended and that nobody evaluates."""
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now())
    with brief_connection(), transaction.atomic():
        execution = _first(Q(state=State.EVALUATING, run__state__in=Run.LIVE_STATES) & free, "harness_ended_at")
        if execution is None:
            return None
        lost = execution.lost_attempts + bool(execution.lease_owner)
        Execution.objects.filter(pk=execution.pk).update(
            lease_owner=owner, lease_expires_at=expiry(), lost_attempts=lost
        )
        return _lease(execution)


def _first(condition: Q, order: str) -> Execution | None:
    rows = Execution.objects.select_for_update(skip_locked=True, of=("self",), no_key=True).select_related(
        "group__task", "run"
    )
    return rows.filter(condition).order_by(order, "pk").first()


def _lease(execution: Execution, key: str = "") -> Lease:
    task = execution.group.task
    return Lease(
        execution_id=execution.pk,
        attempt=execution.attempt,
        run_id=execution.run_id,
        task_path=Path(task.path),
        task_digest=task.digest,
        config=parse(execution.run.config),
        key=key,
        proxy_socket=Path(execution.proxy.socket) if key and execution.proxy is not None else None,
        end=harness_end(execution),
    )


def harness_started(lease: Lease, sandbox: dict[str, Any], harness: dict[str, object]) -> bool:
    """False when the attempt is no longer the live one."""
    return persistently(lambda: bool(lease.rows().update(harness_started_at=Now(), sandbox=sandbox, harness=harness)))


def held_s(lease: Lease) -> float:
    """How long the proxy has held calls of this attempt, or was gone; not the agent's time."""
    return persistently(lambda: outages.held_s(lease.execution_id, lease.attempt))


def malformed_calls(lease: Lease) -> int:
    """Replies with a tool call that could not be read, as the proxy saw them; most harnesses do not count them."""
    rows = Call.objects.filter(execution=lease.execution_id, attempt=lease.attempt, malformed=True)
    return persistently(lambda: rows.exclude(role=Role.AUXILIARY).count())


def harness_ended(lease: Lease, end: HarnessEnd, text: str) -> bool:
    """Hand the attempt to the evaluators: no lease, no key, the file tree stays. False when it is not the live one."""
    return persistently(lambda: _hand_over(lease, end, text))


def _hand_over(lease: Lease, end: HarnessEnd, text: str) -> bool:
    with transaction.atomic():
        row = lease.rows().select_for_update(no_key=True).first()
        if row is None or row.state == State.EVALUATING:
            return row is not None
        row.state, row.lease_owner, row.lease_expires_at, row.key_hash = State.EVALUATING, "", None, None
        row.harness_ended_at, row.harness_exit, row.harness_log = Now(), end.exit_code, text
        row.num_malformed_calls, row.hit_turn_limit = end.num_malformed_calls, end.hit_turn_limit
        row.timed_out = end.timeout is not None
        row.sandbox = {**row.sandbox, "timeout": end.timeout or ""}
        row.save(
            update_fields=[
                "state", "lease_owner", "lease_expires_at", "key_hash", "harness_ended_at", "harness_exit",
                "harness_log", "num_malformed_calls", "hit_turn_limit", "timed_out", "sandbox",
            ]
        )  # fmt: skip
        return True


def renew(owner: str, execution_ids: list[int]) -> None:
    with brief_connection():
        Execution.objects.filter(pk__in=execution_ids, lease_owner=owner).update(lease_expires_at=expiry())


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
