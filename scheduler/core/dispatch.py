"""When the next burst is dispatched, and what stops it (algorithms.md §9, Burst and Void)."""

from __future__ import annotations

from scheduler.core import bursts
from scheduler.core.decisions import Kind
from scheduler.core.plan import Plan

VOID_GROUPS = "void_groups"


def dispatch(plan: Plan) -> None:
    """At most one burst per evaluation."""
    snapshot, settings = plan.snapshot, plan.settings
    size, shape = settings.groups_per_batch, bursts.shape(settings)
    under_way = bursts.outstanding_batches(snapshot)
    remaining = settings.steps - snapshot.version - under_way
    if remaining <= 0:
        plan.refuse(
            Kind.DISPATCH_BURST,
            "last_steps",
            f"no burst: version {snapshot.version} + {under_way} batches under way reach step {settings.steps}",
        )
        return
    outstanding = bursts.outstanding_groups(snapshot)
    if outstanding > shape.lead * size or under_way > shape.lead:
        plan.refuse(
            Kind.DISPATCH_BURST,
            "burst_in_progress",
            f"no burst yet: {outstanding} groups, {under_way} batches, are neither consumed nor void; lead "
            f"{shape.lead} x {size} allow {shape.lead * size}",
        )
        return
    if _stopped(plan):
        return
    num_batches = min(shape.num_batches, remaining)
    num_executions = num_batches * size * settings.executions_per_group
    plan.num_dispatched += num_executions
    plan.accept(
        Kind.DISPATCH_BURST,
        "burst_used_up",
        f"dispatches burst {snapshot.next_burst}: {num_batches} x {size} groups of {settings.executions_per_group} "
        f"at version {snapshot.version}, W rises to {plan.waterlevel}",
        number=snapshot.next_burst,
        version=snapshot.version,
        num_batches=num_batches,
        groups_per_batch=size,
        executions_per_group=settings.executions_per_group,
        max_staleness=settings.max_staleness,
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
            alarm=VOID_GROUPS,
        )
        return True
    return False
