"""How many cells of a live run were in rollout, over time."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from django.utils import timezone

from agents import facade as agents
from scheduler.models import Cell
from scheduler.web import cells as cell_queries


def rooms(run_id: int) -> list[tuple[float, int]]:
    """[(second since the run's start, cells in rollout from then on)]. Raises Run.DoesNotExist."""
    run = agents.run(run_id)
    start = run.started_at or run.created_at
    until = run.finished_at or timezone.now()
    lanes = cell_queries.lanes(run, cell_queries.cells_of(run), start - timedelta(days=1), until)
    changes: Counter[float] = Counter()
    for span in (span for lane in lanes.values() for span in lane if span.role == Cell.Role.ROLLOUT):
        changes[span.start - start.timestamp()] += 1
        if span.end is not None:
            changes[span.end - start.timestamp()] -= 1
    count, steps = 0, []
    for at_s in sorted(changes):
        count += changes[at_s]
        steps.append((at_s, count))
    return steps
