"""When the next burst is dispatched, and what stops it (docs/algorithms.md §9)."""

from __future__ import annotations

from scheduler.core.decisions import DispatchBurst, Kind, RaiseAlarm
from scheduler.core.plan import Plan
from scheduler.core.policies.base import Policy

VOID_GROUPS = "void_groups"


def dispatch(plan: Plan, policy: Policy) -> None:
    """At most one burst per call of `decide`."""
    snapshot, settings = plan.snapshot, plan.settings
    proposal = policy.next_burst(plan)
    if not proposal.num_groups:
        plan.refuse(Kind.DISPATCH_BURST, proposal.code, proposal.reason)
        return
    if _stopped(plan):
        return
    plan.dispatch(proposal.num_groups)
    plan.accept(
        Kind.DISPATCH_BURST,
        proposal.code,
        f"dispatches burst {snapshot.next_burst}: {proposal.reason} of {settings.executions_per_group} "
        f"at version {snapshot.version}, W rises to {plan.waterlevel}",
        params=DispatchBurst(
            number=snapshot.next_burst,
            version=snapshot.version,
            num_groups=proposal.num_groups,
            groups_per_batch=settings.groups_per_batch,
            executions_per_group=settings.executions_per_group,
            max_staleness=settings.max_staleness,
        ),
    )


def _stopped(plan: Plan) -> bool:
    """Held by a person, by an alarm, by too many void groups in a row, or for an evaluation about to start."""
    snapshot, limit = plan.snapshot, plan.settings.max_void_groups
    if plan.evaluation_waits:
        plan.refuse(
            Kind.DISPATCH_BURST,
            "evaluation_first",
            f"no burst yet: the cell that will evaluate version {snapshot.version} comes first",
        )
        return True
    if snapshot.dispatch_held:
        plan.refuse(Kind.DISPATCH_BURST, "held", "no burst: dispatch is held until somebody releases it")
        return True
    if (hold := plan.orders.hold()) is not None:
        plan.refuse(Kind.DISPATCH_BURST, "override", f"no burst: override {hold.id} holds dispatch")
        return True
    if snapshot.num_void_in_a_row >= limit:
        plan.accept(
            Kind.RAISE_ALARM,
            VOID_GROUPS,
            f"{snapshot.num_void_in_a_row} groups in a row were void (limit {limit}); dispatch pauses: look at the "
            "reasons of their executions, then release dispatch",
            params=RaiseAlarm(VOID_GROUPS),
        )
        return True
    return False
