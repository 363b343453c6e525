"""Strict bursts: how many groups are dispatched, and when (algorithms.md §9)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from scheduler.core.settings import Settings
from scheduler.core.snapshot import Burst, Snapshot


class Shape(NamedTuple):
    """Batches per burst and overlap between bursts, cut so that S + lead <= max_staleness + 1."""

    num_batches: int
    lead: int


def shape(settings: Settings) -> Shape:
    lead = min(settings.burst_lead, settings.max_staleness)
    return Shape(num_batches=min(settings.burst_batches, settings.max_staleness + 1 - lead), lead=lead)


def outstanding_groups(snapshot: Snapshot) -> int:
    """Groups of all bursts that are neither consumed nor void."""
    return sum(burst.outstanding for burst in snapshot.bursts)


def outstanding_batches(snapshot: Snapshot) -> int:
    """Optimizer steps that the bursts under way can still give."""
    return sum(-(-burst.outstanding // burst.groups_per_batch) for burst in snapshot.bursts)


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


def num_due(snapshot: Snapshot, version: int) -> int:
    """Unfinished groups that a batch at `version` must take, because the next one would be too late for them."""
    return sum(burst.num_unfinished for burst in snapshot.bursts if burst.version + burst.max_staleness <= version)
