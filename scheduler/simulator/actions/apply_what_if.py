"""Apply a point of a what-if to its live run: one override per setting, by the action that sets any override."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from agents.actions.errors import NotFound, Refused
from scheduler.actions.set_override import Preview, must_go_on, set_override
from scheduler.core.decide import decide
from scheduler.core.overrides import SETTING
from scheduler.core.policies import policy_of
from scheduler.core.settings import setting_problem
from scheduler.core.snapshot import Override as OverrideFact
from scheduler.models import Override, WhatIfPoint
from scheduler.observe import observe
from scheduler.simulator.whatif.question import why_not_live


def apply_what_if(point: WhatIfPoint, *, user: AbstractBaseUser, reason: str, expires_at: datetime) -> list[Override]:
    """All of the point's changes or none. Raises Refused with what is wrong."""
    _check(point)
    run = point.what_if.run
    with transaction.atomic():
        return [
            set_override(
                run, user=user, kind=SETTING, reason=reason, expires_at=expires_at, value={"name": name, "value": value}
            )
            for name, value in point.changes.items()
        ]


def preview_what_if(point: WhatIfPoint) -> Preview:
    """What the scheduler decides now, and what it would with all of the point's changes. Raises Refused, NotFound."""
    _check(point)
    observation = observe(point.what_if.run_id)
    if observation is None:
        raise NotFound(f"run {point.what_if.run_id} does not exist")
    snapshot = observation.snapshot
    policy, now_s = policy_of(snapshot.policy_kind), snapshot.taken_at_s
    newest = max((order.id for order in snapshot.overrides), default=0)
    orders = tuple(
        _order(newest + place, name, value, now_s) for place, (name, value) in enumerate(point.changes.items(), start=1)
    )
    overridden = replace(snapshot, overrides=(*snapshot.overrides, *orders))
    return Preview(decide(snapshot, policy, now_s), decide(overridden, policy, now_s))


def _order(number: int, name: str, value: Any, now_s: float) -> OverrideFact:
    return OverrideFact(id=number, kind=SETTING, expires_at_s=now_s + 3600.0, name=name, number=float(value))


def _check(point: WhatIfPoint) -> None:
    run = point.what_if.run
    if not point.changes:
        raise Refused("these are the present settings: there is nothing to apply")
    if why := why_not_live(point.changes):
        raise Refused(why)
    must_go_on(run)
    for name, value in point.changes.items():
        if problem := setting_problem(name, value):
            raise Refused(problem)
