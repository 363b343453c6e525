"""Saved simulations: the list, one of them, its chart, its decisions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from agents.actions.errors import NotFound
from agents.web.access import Viewer
from scheduler.core.policies import REGISTRY
from scheduler.simulator.studies.models import SimulatedDecision, SimulatedRun, Simulation
from scheduler.web.decisions import PAGE_SIZE, ROUTINE, Sentence, chosen, sentence

MAX_ROWS = 100
MAX_MARKS = 400


def visible(viewer: Viewer) -> QuerySet[Simulation]:
    rows = Simulation.objects.all()
    return rows if viewer.project_ids is None else rows.filter(project_id__in=viewer.project_ids)


def newest(viewer: Viewer, limit: int = MAX_ROWS, before: int | None = None) -> list[Simulation]:
    """Newest first, by key."""
    rows = visible(viewer).select_related("project", "fitted_from").order_by("-pk")
    return list((rows if before is None else rows.filter(pk__lt=before))[:limit])


def simulation_for(viewer: Viewer, simulation_id: int) -> Simulation:
    """Raises NotFound for one that does not exist or that the viewer cannot see."""
    found = visible(viewer).select_related("project", "fitted_from", "created_by").filter(pk=simulation_id).first()
    if found is None:
        raise NotFound(f"simulation {simulation_id} does not exist")
    return found


def runs_of(simulation: Simulation) -> list[SimulatedRun]:
    """Policies in the order of their saving, seeds in order. Without their series."""
    return list(simulation.runs.defer("series").order_by("pk"))


def shown_run(simulation: Simulation, policy: str = "") -> SimulatedRun | None:
    """The run of that policy that kept its series, else the first that did."""
    kept = simulation.runs.exclude(series={}).order_by("pk")
    return kept.filter(policy_kind=policy).first() or kept.first()


def in_order(policies: Iterable[str]) -> list[str]:
    """Policies as the registry has them; JSON keeps no order."""
    known = list(REGISTRY)
    return sorted(policies, key=lambda policy: known.index(policy) if policy in known else len(known))


def cell_name(index: int) -> str:
    return "core" if index == 0 else f"cell {index}"


def chart(run: SimulatedRun, room_per_cell: int, since_s: float, until_s: float) -> dict[str, Any]:
    """What the run page's picture draws; times are seconds since dispatch."""
    series, end_s = run.series, (run.hours or 0.0) * 3600
    points = series["waterlevel"]
    inside = [point for point in points if since_s <= point[0] <= until_s]
    before = [point for point in points if point[0] < since_s]
    rows = run.decisions.filter(at_s__gte=since_s, at_s__lte=until_s).exclude(kind__in=ROUTINE)
    marks = rows.defer("snapshot").order_by("number")[:MAX_MARKS]
    return {
        "relative": True,
        "live": False,
        "since": since_s,
        "until": until_s,
        "room_per_cell": room_per_cell,
        "water": _steep([[since_s, before[-1][1]], *inside] if before else inside),
        "lanes": [
            {"index": index, "name": cell_name(index), "spans": _spans(lane, end_s, since_s, until_s)}
            for index, lane in enumerate(series["lanes"])
        ],
        "steps": [[row["finished_s"], row["number"]] for row in series["step_rows"] if row["finished_s"] >= since_s],
        "evaluations": [],
        "decisions": [[row.at, row.number, row.tone, row.head, row.why] for row in sentences(list(marks))],
    }


def _steep(points: list[list[float]]) -> list[list[float]]:
    """The waterlevel rises only at a dispatch, all at once."""
    found = points[:1]
    for before, point in itertools.pairwise(points):
        if point[1] > before[1]:
            found.append([point[0], before[1]])
        found.append(point)
    return found


def _spans(lane: list[list[Any]], end_s: float, since_s: float, until_s: float) -> list[list[Any]]:
    ends = [start for start, _ in lane[1:]] + [end_s]
    return [
        [max(start, since_s), min(end, until_s), role, []]
        for (start, role), end in zip(lane, ends, strict=True)
        if end > since_s and start < until_s
    ]


def decisions_of(
    run: SimulatedRun, *, limit: int = PAGE_SIZE, before: int | None = None, kind: str = "",
    cell_index: int | None = None, accepted: bool | None = None, routine: bool = True, until_s: float | None = None,
) -> list[SimulatedDecision]:  # fmt: skip
    """Newest first, by key. Snapshots stay in the database."""
    rows = run.decisions.all() if until_s is None else run.decisions.filter(at_s__lte=until_s)
    rows = chosen(rows, before=before, kind=kind, cell_index=cell_index, accepted=accepted, routine=routine)
    return list(rows[:limit])


def decision_kinds(run: SimulatedRun) -> list[str]:
    return list(run.decisions.order_by("kind").values_list("kind", flat=True).distinct())


def inputs_of(run: SimulatedRun, number: int) -> dict[str, Any] | None:
    """The snapshot that `decide` saw for this decision; it stands on the first one of the evaluation."""
    row = run.decisions.filter(number=number).values_list("evaluation_number", flat=True).first()
    rows = run.decisions.filter(evaluation_number=row, snapshot__isnull=False)
    return None if row is None else rows.values_list("snapshot", flat=True).first()


def sentences(decisions: list[SimulatedDecision]) -> list[Sentence]:
    names = {row.cell_index: cell_name(row.cell_index) for row in decisions if row.cell_index is not None}
    return [sentence(row, row.at_s, names) for row in decisions]
