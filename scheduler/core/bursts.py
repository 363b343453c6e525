"""Strict bursts: how many groups are dispatched, and when (docs/algorithms.md §9)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from scheduler.core.settings import Settings
from scheduler.core.snapshot import Burst, ReadyGroup, Snapshot


class Shape(NamedTuple):
    """Batches per burst and overlap between bursts, cut so that S + lead <= max_staleness + 1."""

    num_batches: int
    lead: int


class Proposal(NamedTuple):
    """Groups to dispatch now, with the reason; 0 groups: none, and why."""

    num_groups: int
    code: str
    reason: str


def shape(settings: Settings) -> Shape:
    lead = min(settings.burst_lead, settings.max_staleness)
    return Shape(num_batches=min(settings.burst_batches, settings.max_staleness + 1 - lead), lead=lead)


def outstanding_groups(snapshot: Snapshot) -> int:
    """Groups of all bursts that are neither consumed nor void."""
    return sum(burst.outstanding for burst in snapshot.bursts)


def outstanding_batches(snapshot: Snapshot) -> int:
    """Optimizer steps that the bursts under way can still give."""
    return sum(-(-burst.outstanding // burst.groups_per_batch) for burst in snapshot.bursts)


def strict_burst(snapshot: Snapshot, settings: Settings) -> Proposal:
    """S·B groups at once when all but lead·B groups of the earlier bursts, in at most lead batches, are used up."""
    size, (num_batches, lead) = settings.groups_per_batch, shape(settings)
    under_way = outstanding_batches(snapshot)
    remaining = settings.steps - snapshot.version - under_way
    if remaining <= 0:
        why = f"version {snapshot.version} + {under_way} batches under way reach step {settings.steps}"
        return Proposal(0, "last_steps", f"no burst: {why}")
    outstanding = outstanding_groups(snapshot)
    if outstanding > lead * size or under_way > lead:
        return Proposal(
            0,
            "burst_in_progress",
            f"no burst yet: {outstanding} groups, {under_way} batches, are neither consumed nor void; lead "
            f"{lead} x {size} allow {lead * size}",
        )
    num_batches = min(num_batches, remaining)
    return Proposal(num_batches * size, "burst_used_up", f"{num_batches} x {size} groups")


def current(snapshot: Snapshot) -> Burst | None:
    """The oldest burst that is not used up: batches take their groups from this one alone."""
    return next((burst for burst in snapshot.bursts if burst.outstanding), None)


def merged(snapshot: Snapshot) -> Burst | None:
    """All bursts that are not used up, as one: number, version and bound of the oldest, its groups first."""
    live = [burst for burst in snapshot.bursts if burst.outstanding]
    if len(live) < 2:
        return live[0] if live else None
    return replace(
        live[0],
        num_unfinished=sum(burst.num_unfinished for burst in live),
        num_admitted=sum(burst.num_admitted for burst in live),
        ready=tuple(group for burst in live for group in burst.ready),
        settled_at_s=max(burst.settled_at_s for burst in live),
    )


def in_time(snapshot: Snapshot, version: int, num_free: int) -> list[ReadyGroup]:
    """Ready groups of all bursts for a batch at `version` with so many places left, those due soonest first.

    A group's bound is the last version at which a batch may still train it. A group may take a place only if all groups
    with an earlier bound, the unfinished ones included, still fit into this batch and those that follow up to their
    bound. Otherwise some of them would come too late for every batch.
    """
    by_bound = sorted(snapshot.bursts, key=lambda burst: (burst.version + burst.max_staleness, burst.number))
    taken: list[ReadyGroup] = []
    num_due = 0  # groups of the bursts seen so far that later batches must take
    room = num_free  # places for the burst at hand that no group with an earlier bound needs
    for burst in by_bound:
        more_batches = max(0, burst.version + burst.max_staleness - version)
        count = max(0, min(len(burst.ready), room))
        taken += burst.ready[:count]
        num_due += len(burst.ready) - count + burst.num_unfinished
        room = min(room - count, num_free - len(taken) + more_batches * burst.groups_per_batch - num_due)
    return taken
