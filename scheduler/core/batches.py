"""Opening, filling and sealing the batch in progress (docs/algorithms.md §9, §11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.core import bursts, evaluations
from scheduler.core.decisions import AdmitGroup, Kind, OpenBatch, SealBatch
from scheduler.core.plan import Plan
from scheduler.core.safety import staleness
from scheduler.core.snapshot import Burst, ReadyGroup

if TYPE_CHECKING:
    from scheduler.core.policies.base import Policy


def open_batch(plan: Plan, policy: Policy) -> None:
    """Open when the core is in training, or told to go there, and the policy finds enough to train."""
    snapshot = plan.snapshot
    burst = plan.source
    if snapshot.batch is not None or burst is None or not plan.core_trains:
        return
    number = snapshot.version + 1
    if snapshot.version >= plan.settings.steps or not burst.ready:
        return
    if evaluations.pending(plan):
        plan.refuse(
            Kind.OPEN_BATCH,
            "evaluation_first",
            f"batch {number} waits: version {snapshot.version} must be evaluated first",
        )
        return
    age = staleness(burst.version, snapshot.version)
    if age > burst.max_staleness:
        plan.refuse(
            Kind.OPEN_BATCH,
            "too_stale",
            f"batch {number} waits: tokens of burst {burst.number} would be up to {age} versions old, bound "
            f"{burst.max_staleness}",
        )
        return
    if problem := policy.not_yet(plan, burst):
        plan.refuse(Kind.OPEN_BATCH, "supply_short", f"batch {number} waits: {problem}")
        return
    plan.batch_burst = burst.number
    plan.accept(
        Kind.OPEN_BATCH,
        "supply",
        f"opens batch {number} of burst {burst.number} at version {snapshot.version}: {len(burst.ready)} of "
        f"{burst.groups_per_batch} groups are ready, {burst.num_unfinished} unfinished",
        params=OpenBatch(number, burst.number, snapshot.version),
    )


def fill_batch(plan: Plan) -> None:
    """Admit ready groups of the batch's burst, oldest first, then seal when no more can come."""
    batch = plan.snapshot.batch
    if plan.batch_burst is None or (batch is not None and batch.sealed):
        return
    number = batch.number if batch is not None else plan.snapshot.version + 1
    version = batch.version if batch is not None else plan.snapshot.version
    num_groups = batch.num_groups if batch is not None else 0
    burst = _source(plan)
    size = burst.groups_per_batch if burst is not None else plan.settings.groups_per_batch
    for group in _admissible(plan, burst, version, size - num_groups):
        num_groups += 1
        plan.num_admitted += 1
        plan.accept(
            Kind.ADMIT_GROUP,
            "ready",
            f"admits group {group.id} to batch {number} as {num_groups} of {size}",
            params=AdmitGroup(group.id, number, plan.settings.j_max),
        )
    _seal(plan, number, num_groups, size, burst)


def _source(plan: Plan) -> Burst | None:
    """Where the batch takes its groups; None when its burst is used up."""
    if plan.mixes_bursts:
        return plan.source
    return next((b for b in plan.snapshot.bursts if b.number == plan.batch_burst), None)


def _admissible(plan: Plan, burst: Burst | None, version: int, num_free: int) -> Sequence[ReadyGroup]:
    if burst is None or num_free <= 0:
        return ()
    return bursts.in_time(plan.snapshot, version, num_free) if plan.mixes_bursts else burst.ready[:num_free]


def _seal(plan: Plan, number: int, num_groups: int, size: int, burst: Burst | None) -> None:
    num_to_come = 0 if burst is None else burst.num_unfinished
    if plan.mixes_bursts:
        num_to_come += plan.num_dispatched
    if num_groups < size and num_to_come:
        plan.refuse(
            Kind.SEAL_BATCH,
            "groups_to_come",
            f"batch {number} stays open: {num_groups} of {size} groups, {num_to_come} more unfinished",
        )
    elif evaluations.unconfirmed(plan):
        plan.refuse(
            Kind.SEAL_BATCH,
            "evaluation_first",
            f"batch {number} stays open: the cell that evaluates version {plan.snapshot.version} does not serve it yet",
        )
    else:
        plan.accept(
            Kind.SEAL_BATCH,
            "full" if num_groups >= size else "burst_exhausted",
            f"seals batch {number} with {num_groups} of {size} groups"
            + ("" if num_groups >= size else ": its burst has none unfinished"),
            params=SealBatch(number),
        )
