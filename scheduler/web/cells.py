"""Cells, their lanes over time, and evaluations."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agents.models import Run
from scheduler.models import Cell, Evaluation, RoleChange

#: A cell whose agent was not heard from for this long is shown as stale.
STALE_AFTER_S = 15


@dataclass(frozen=True)
class Span:
    """A stretch of one role on a lane. `end` None means it lasts. `phases` are [name, seconds] inside a switch."""

    start: float
    end: float | None
    role: str
    phases: list[list[Any]] = field(default_factory=list)

    def as_list(self) -> list[Any]:
        return [self.start, self.end, self.role, self.phases]


def cells_of(run: Run) -> list[Cell]:
    """The core first, then by index."""
    return list(Cell.objects.filter(run=run).order_by("-is_core", "index"))


def cells_of_runs(run_ids: list[int]) -> dict[int, list[Cell]]:
    found: dict[int, list[Cell]] = defaultdict(list)
    fields = ("run_id", "index", "is_core", "role", "weight_version", "heartbeat_at", "error", "evaluation")
    for cell in Cell.objects.filter(run_id__in=run_ids).only(*fields).order_by("run_id", "-is_core", "index"):
        found[cell.run_id].append(cell)
    return found


def role_changes(run: Run, limit: int = 100, cell_index: int | None = None) -> list[RoleChange]:
    rows = RoleChange.objects.filter(cell__run=run).select_related("cell").order_by("-id")
    if cell_index is not None:
        rows = rows.filter(cell__index=cell_index)
    return list(rows[:limit])


def lanes(
    run: Run, cells: list[Cell], since: datetime, until: datetime, *, keep_last: bool = False
) -> dict[int, list[Span]]:
    """Role spans per cell index that touch [since, until]. One query, whatever the number of cells.

    `keep_last`: also the last one of a cell that has left before, so that who drew it as open learns of its end.
    """
    changes: dict[int, list[RoleChange]] = defaultdict(list)
    rows = RoleChange.objects.filter(cell__run=run, started_at__lte=until).order_by("started_at", "id")
    for change in rows:
        changes[change.cell_id].append(change)
    found = {}
    for cell in cells:
        spans = lane(cell, changes[cell.pk], run.started_at or run.created_at, run.finished_at)
        touching = [
            span
            for span in spans
            if (span.end is None or span.end >= since.timestamp()) and span.start <= until.timestamp()
        ]
        found[cell.index] = touching or (spans[-1:] if keep_last else [])
    return found


def lane(cell: Cell, changes: list[RoleChange], started_at: datetime, ended_at: datetime | None) -> list[Span]:
    """The cell's history out of its role changes, oldest first; what it reports now closes the lane."""
    spans: list[Span] = []
    at, role = started_at.timestamp(), changes[0].from_role if changes else cell.role
    end = ended_at.timestamp() if ended_at else None
    if not changes and cell.role_since and cell.role not in (Cell.Role.STOPPED, Cell.Role.LOST):
        at = cell.role_since.timestamp()
    for change in changes:
        begin = max(change.started_at.timestamp(), at)
        if begin > at:
            spans.append(Span(at, begin, role))
        done = change.finished_at.timestamp() if change.finished_at else None
        last = change is changes[-1]
        if done is None and not last:
            done = changes[changes.index(change) + 1].started_at.timestamp()
        spans.append(Span(begin, done, Cell.Role.SWITCHING, change.phases))
        if done is None:
            at, role = begin, Cell.Role.SWITCHING
            continue
        at = done
        role = change.to_role if change.state == RoleChange.State.FINISHED else change.from_role
    if spans and spans[-1].end is None:
        spans[-1] = Span(spans[-1].start, end, spans[-1].role, spans[-1].phases)
        return spans
    if cell.role in (Cell.Role.LOST, Cell.Role.STOPPED) and cell.role != role and cell.role_since:
        left = max(cell.role_since.timestamp(), at)
        spans.append(Span(at, left, role))
        at, role = left, cell.role
    if role not in (Cell.Role.STOPPED,) and (end is None or end > at):
        spans.append(Span(at, end, role))
    return spans


def evaluations_of(run: Run) -> list[Evaluation]:
    return list(Evaluation.objects.filter(run=run).order_by("version"))


def evaluations_of_runs(run_ids: list[int]) -> dict[int, list[Evaluation]]:
    found: dict[int, list[Evaluation]] = defaultdict(list)
    for row in Evaluation.objects.filter(run_id__in=run_ids, reward_mean__isnull=False).order_by("run_id", "version"):
        found[row.run_id].append(row)
    return found


def is_stale(cell: Cell, now: datetime) -> bool:
    """True for a cell that should be talking and was not heard from."""
    if cell.role in (Cell.Role.STOPPED, Cell.Role.LOST) or cell.heartbeat_at is None:
        return False
    return (now - cell.heartbeat_at).total_seconds() > STALE_AFTER_S
