"""The data of the run chart agrees with the rows, counted one by one."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from agents.models import Execution, Run
from agents.web.runs import waterlevel_series
from gyreweb.pages import chart
from gyreweb.pages.facts import RunFacts
from scheduler.models import Cell, RoleChange
from scheduler.web.cells import lane
from scheduler.web.decisions import sentence


def _level(run: Run, at: float) -> int:
    """D − F at an instant, from the rows."""
    rows = Execution.objects.filter(run=run, group__kind="training").select_related("group")
    owed = sum(row.group.created_at.timestamp() <= at for row in rows)
    return owed - sum(row.finished_at is not None and row.finished_at.timestamp() <= at for row in rows)


@pytest.mark.parametrize("max_points", [7, 60, 600])
def test_each_point_of_the_waterlevel_is_dispatched_minus_finished(run: Run, max_points: int) -> None:
    points = waterlevel_series(run, run.started_at, timezone.now(), max_points)
    assert points[-1][1] == run.waterlevel
    assert [at for at, _ in points] == sorted(at for at, _ in points)
    for at, level in points[1:]:
        assert level in (_level(run, at - 1e-6), _level(run, at + 1e-6)), at
    assert len(points) <= 2 * max_points + 3


def test_a_window_of_the_waterlevel_begins_at_the_level_it_had_then(run: Run) -> None:
    since = run.started_at + timedelta(seconds=70)
    points = waterlevel_series(run, since, timezone.now())
    assert points[0] == (since.timestamp(), _level(run, since.timestamp()))


def test_the_waterlevel_takes_one_query_whatever_its_length(run: Run, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        waterlevel_series(run, run.started_at, timezone.now())


def test_lanes_cover_the_run_without_gap_or_overlap_and_end_in_the_role_of_now(run: Run) -> None:
    facts = RunFacts(run)
    drawn = chart.water_chart(facts, run.started_at, facts.now)
    roles = {cell.index: cell.role for cell in facts.cells}
    assert [row["name"] for row in drawn["lanes"]] == ["core", "cell 1", "cell 2"]
    for row in drawn["lanes"]:
        spans = row["spans"]
        assert spans[0][0] == pytest.approx(run.started_at.timestamp())
        assert all(a[1] == pytest.approx(b[0]) for a, b in pairwise(spans))
        assert (spans[-1][1], spans[-1][2]) == (None, roles[row["index"]])


def _changes(*rows: tuple[float, float | None, str, str, str]) -> list[Any]:
    zero = timezone.now()
    return [
        SimpleNamespace(
            started_at=zero + timedelta(seconds=start), state=state, from_role=old, to_role=new, phases=[],
            finished_at=None if end is None else zero + timedelta(seconds=end),
        )
        for start, end, old, new, state in rows
    ]  # fmt: skip


def _spans(cell: Cell, changes: list[Any], ended_s: float | None = None) -> list[tuple[float, float | None, str]]:
    zero = changes[0].started_at
    ended = None if ended_s is None else zero + timedelta(seconds=ended_s)
    start = zero.timestamp()
    found = lane(cell, changes, zero - timedelta(seconds=10), ended)
    return [(round(s.start - start), None if s.end is None else round(s.end - start), s.role) for s in found]


def test_a_failed_switch_leaves_the_cell_where_it_was() -> None:
    changes = _changes((0, 3, "rollout", "training", "failed"))
    assert _spans(Cell(role="rollout"), changes) == [(-10, 0, "rollout"), (0, 3, "switching"), (3, None, "rollout")]


def test_a_switch_that_never_ended_lasts_until_the_next_or_until_the_run_ends() -> None:
    open_one = _changes((0, None, "rollout", "training", "started"))
    assert _spans(Cell(role="switching"), open_one)[-1] == (0, None, "switching")
    assert _spans(Cell(role="switching"), open_one, ended_s=9)[-1] == (0, 9, "switching")
    torn = _changes((0, None, "rollout", "training", "started"), (5, 6, "rollout", "training", "finished"))
    assert _spans(Cell(role="training"), torn) == [
        (-10, 0, "rollout"), (0, 5, "switching"), (5, 6, "switching"), (6, None, "training"),
    ]  # fmt: skip


def test_a_lost_cell_ends_its_last_role_when_it_was_lost() -> None:
    changes = _changes((0, 2, "rollout", "training", "finished"))
    cell = Cell(role="lost", role_since=changes[0].started_at + timedelta(seconds=8))
    assert _spans(cell, changes)[-2:] == [(2, 8, "training"), (8, None, "lost")]


def test_live_points_hold_what_the_chart_lacks(run: Run) -> None:
    old = RunFacts(run)
    since = old.now
    RoleChange.objects.create(cell=Cell.objects.get(run=run, index=2), epoch=1, from_role="rollout", to_role="training")
    Cell.objects.filter(run=run, index=2).update(role="switching")
    points = chart.live_points(RunFacts(run), since)
    spans = {row["index"]: row["spans"] for row in points["lanes"]}
    assert spans[2][-1][2] == "switching"
    assert points["water"][0][1] == run.waterlevel


@pytest.mark.parametrize(
    ("kind", "accepted", "reason", "expected"),
    [
        ("leave_rollout", True, "cell 1 leaves rollout: 2 groups ready; 1 x 64 >= W 60",
         ("training", "training", "cell 1 leaves rollout", "2 groups ready; 1 × 64 ≥ W 60")),
        ("leave_rollout", False, "cell 1 stays in rollout: 1 x 64 < W 70",
         ("stays", "stays", "cell 1 stays in rollout", "1 × 64 < W 70")),
        ("dispatch_burst", False, "no burst yet: 3 groups are neither consumed nor void",
         ("stays", "not yet", "no burst yet", "3 groups are neither consumed nor void")),
        ("seal_batch", True, "seals batch 3 with 8 groups", ("training", "seal", "seals batch 3 with 8 groups", "")),
        ("launch", True, "a " * 40 + "b", ("run", "launch", "launch", "a " * 40 + "b")),
    ],
)  # fmt: skip
def test_a_decision_reads_as_a_headline_and_its_numbers(
    kind: str, accepted: bool, reason: str, expected: tuple[str, str, str, str]
) -> None:
    row = SimpleNamespace(
        kind=kind, accepted=accepted, reason=reason, cell_index=None, params={}, number=1, created_at=timezone.now()
    )
    said = sentence(row, row.created_at, {})
    assert (said.tone, said.tag, said.head, said.why) == expected
