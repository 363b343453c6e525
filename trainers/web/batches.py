"""Batches with the work of each cell, and what their steps measured."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, Sum

from agents.models import Run
from agents.models.figures import MAX_FIGURE
from trainers.models import Batch, Checkpoint, HandIn, MicroStep


@dataclass(frozen=True)
class CellShare:
    """Micro-steps of one batch that one cell claimed, and how many of them are counted."""

    cell_index: int | None
    claimed: int
    counted: int
    targets: int


@dataclass(frozen=True)
class Staleness:
    """Trained target tokens by staleness d = version that trains − version that sampled."""

    counts: dict[int, float]

    @property
    def mean(self) -> float | None:
        total = sum(self.counts.values())
        return sum(d * n for d, n in self.counts.items()) / total if total else None

    @property
    def max(self) -> int | None:
        return max((d for d, n in self.counts.items() if n), default=None)

    @property
    def shares(self) -> list[tuple[int, float]]:
        total = sum(self.counts.values())
        return [(d, self.counts[d] / total) for d in sorted(self.counts)] if total else []


def batches_of(run: Run, limit: int | None = None) -> list[Batch]:
    """Newest first."""
    rows = Batch.objects.filter(run=run).order_by("-number")
    return list(rows if limit is None else rows[:limit])


def steps_of(run: Run) -> list[tuple[float, int]]:
    """Optimizer steps as (epoch seconds, version after it)."""
    rows = Batch.objects.filter(run=run, state=Batch.State.STEPPED).order_by("number")
    return [(at.timestamp(), version + 1) for at, version in rows.values_list("stepped_at", "version") if at]


def shares_of(batch_ids: list[int]) -> dict[int, list[CellShare]]:
    """Per batch, its micro-steps by cell; unclaimed ones stand under None. One query."""
    rows = (
        MicroStep.objects.filter(batch_id__in=batch_ids)
        .order_by()
        .values("batch_id", "cell_index")
        .annotate(
            claimed=Count("pk"), counted=Count("pk", filter=Q(counted_at__isnull=False)), targets=Sum("num_targets")
        )
        .order_by("batch_id", "cell_index")
    )
    found: dict[int, list[CellShare]] = defaultdict(list)
    for row in rows:
        found[row["batch_id"]].append(CellShare(row["cell_index"], row["claimed"], row["counted"], row["targets"]))
    return found


def hand_ins_of(batch_ids: list[int]) -> dict[int, list[HandIn]]:
    found: dict[int, list[HandIn]] = defaultdict(list)
    for row in HandIn.objects.filter(batch_id__in=batch_ids).order_by("created_at"):
        found[row.batch_id].append(row)
    return found


def measured(metrics: Any, name: str) -> float | None:
    """A number that a step measured; None for what is none or cannot be drawn."""
    value = metrics.get(name) if isinstance(metrics, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if -MAX_FIGURE <= value <= MAX_FIGURE else None


def staleness_of(batches: list[Batch]) -> Staleness:
    """Sum of the histograms that the steps left in `metrics`."""
    counts: dict[int, float] = defaultdict(float)
    for batch in batches:
        for d, number in _histogram(batch.metrics).items():
            counts[d] += number
    return Staleness(dict(counts))


def _histogram(metrics: Any) -> dict[int, float]:
    found = metrics.get("staleness") if isinstance(metrics, dict) else None
    if not isinstance(found, dict):
        return {}
    return {
        int(d): float(n)
        for d, n in found.items()
        if d.isdecimal() and len(d) < 10 and isinstance(n, int | float) and 0 <= n <= MAX_FIGURE
    }


def checkpoints_of(run: Run) -> list[Checkpoint]:
    return list(Checkpoint.objects.filter(run=run, deleted_at__isnull=True).order_by("-version"))
