"""Set an override: a person's word over the scheduler's, with owner, reason and expiry (docs/algorithms.md §9)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from agents import events
from agents.actions.errors import NotFound, Refused, check_reason
from agents.models import Run
from scheduler.core.decide import decide
from scheduler.core.decisions import Decision
from scheduler.core.overrides import SETTING
from scheduler.core.policies import policy_of
from scheduler.core.settings import setting_problem
from scheduler.core.snapshot import ROLLOUT, TRAINING
from scheduler.core.snapshot import Override as OverrideFact
from scheduler.models import Cell, Override
from scheduler.observe import observe

MAX_DURATION = timedelta(days=14)
Kind = Override.Kind


@dataclass(frozen=True)
class Preview:
    """What `decide` says now, and what it would say with the override."""

    without: list[Decision]
    with_it: list[Decision]


def set_override(
    run: Run,
    *,
    user: AbstractBaseUser,
    kind: str,
    reason: str,
    expires_at: datetime,
    cell_index: int | None = None,
    value: dict[str, Any] | None = None,
    unsafe: bool = False,
) -> Override:
    """Raises Refused with what is wrong; nothing is written then."""
    wanted = value or {}
    _check(run, kind, reason, expires_at, cell_index, wanted)
    with transaction.atomic():
        row = Override.objects.create(
            run=run,
            kind=kind,
            cell_index=cell_index,
            value=wanted,
            unsafe=unsafe,
            owner=user,
            reason=reason.strip(),
            expires_at=expires_at,
        )
        payload = {
            "override": row.pk,
            "kind": kind,
            "cell": cell_index,
            "value": wanted,
            "unsafe": unsafe,
            "by": user.get_username(),
            "reason": row.reason,
            "expires_at": expires_at.isoformat(),
        }
        events.record(run.pk, events.EventKind.OVERRIDE_SET, payload)
    return row


def preview_override(
    run: Run, *, kind: str, cell_index: int | None = None, value: dict[str, Any] | None = None, unsafe: bool = False
) -> Preview:
    """What the scheduler would decide with this override in force. Changes nothing. Raises Refused, NotFound."""
    wanted = value or {}
    _check(run, kind, "preview", timezone.now() + timedelta(hours=1), cell_index, wanted)
    observation = observe(run.pk)
    if observation is None:
        raise NotFound(f"run {run.pk} does not exist")
    snapshot = observation.snapshot
    fact = OverrideFact(
        id=max((o.id for o in snapshot.overrides), default=0) + 1,
        kind=kind,
        expires_at_s=snapshot.taken_at_s + 3600.0,
        cell_index=cell_index,
        role=str(wanted.get("role", "")),
        name=str(wanted.get("name", "")),
        number=float(wanted.get("value", 0.0)),
        unsafe=unsafe,
    )
    policy, now_s = policy_of(snapshot.policy_kind), snapshot.taken_at_s
    overridden = replace(snapshot, overrides=(*snapshot.overrides, fact))
    return Preview(decide(snapshot, policy, now_s), decide(overridden, policy, now_s))


def must_go_on(run: Run) -> None:
    if run.state not in Run.LIVE_STATES:
        raise Refused(f"run {run.pk} is {run.state}; overrides need a run that goes on")


def _check(
    run: Run, kind: str, reason: str, expires_at: datetime, cell_index: int | None, value: dict[str, Any]
) -> None:
    must_go_on(run)
    if kind not in Kind.values:
        raise Refused(f"kind {kind!r} is unknown; known kinds: {', '.join(Kind.values)}")
    if not reason.strip():
        raise Refused("an override needs a reason")
    check_reason(reason)
    if not timezone.now() < expires_at <= timezone.now() + MAX_DURATION:
        raise Refused(f"expires_at must lie in the future, at most {MAX_DURATION.days} days ahead")
    if cell_index is not None and not Cell.objects.filter(run=run, index=cell_index).exists():
        raise Refused(f"run {run.pk} has no cell {cell_index}")
    if kind in (Kind.PIN, Kind.DRAIN) and cell_index is None:
        raise Refused(f"{kind} needs a cell_index")
    if kind == Kind.PIN and value.get("role") not in (ROLLOUT, TRAINING):
        raise Refused(f"pin needs value.role {ROLLOUT} or {TRAINING}, got {value.get('role')!r}")
    if kind == SETTING and (problem := setting_problem(str(value.get("name", "")), value.get("value"))):
        raise Refused(problem)
