"""Strict bursts: how many groups are dispatched, and when (algorithms.md §9)."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.settings import Settings
from scheduler.core.snapshot import Burst, Snapshot


@dataclass(frozen=True, slots=True)
class Shape:
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
