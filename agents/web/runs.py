"""Queries behind the runs list and a run's page."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Avg, Count, Max, Min, Q, QuerySet, StdDev, Sum

from agents.models import Execution, Group, Run, RunEvent
from agents.models.figures import MAX_FIGURE

STATES = list(Run.State.values)
SORTS = {"newest": "-id", "oldest": "id", "name": "name", "step": "-version"}


@dataclass(frozen=True)
class StepReward:
    """Sampled training reward of the groups in one batch: mean, and the spread between groups."""

    step: int
    mean: float
    low: float
    high: float
    num_groups: int


@dataclass(frozen=True)
class OutcomeCounts:
    """Training executions of a run by how they ended. `cancelled`: of those that had been launched."""

    finished: int
    cancelled: int
    unresolved: int
    timed_out: int
    false_forks: int
    calls: int
    running: int

    @property
    def unresolved_share(self) -> float:
        return self.unresolved / self.finished if self.finished else 0.0

    @property
    def timeout_share(self) -> float:
        return self.timed_out / self.finished if self.finished else 0.0


def filtered(runs: QuerySet[Run], *, state: str = "", text: str = "", sort: str = "newest") -> QuerySet[Run]:
    """`state` is a state of a run or `live`; `text` is looked for in name, preset and task set."""
    if state == "live":
        runs = runs.filter(state__in=Run.LIVE_STATES)
    elif state:
        runs = runs.filter(state=state)
    if text:
        found = Q(name__icontains=text) | Q(preset__icontains=text) | Q(task_set__name__icontains=text)
        if text.isdecimal() and len(text) < 16:
            found |= Q(pk=int(text))
        runs = runs.filter(found)
    return runs.select_related("task_set", "project").order_by(SORTS.get(sort, "-id"))


def state_counts(runs: QuerySet[Run]) -> dict[str, int]:
    """Runs per state, with `live` for all that can still go on and `all`."""
    counts = dict(runs.order_by().values_list("state").annotate(Count("pk")))
    live = sum(counts.get(state, 0) for state in Run.LIVE_STATES)
    return {"all": sum(counts.values()), "live": live, **{state: counts.get(state, 0) for state in Run.State.values}}


def reward_per_step(run_ids: list[int]) -> dict[int, list[StepReward]]:
    """Reward curve of each run, one query for all of them. Groups of a batch that has stepped or is open."""
    rows = (
        Group.objects.filter(run_id__in=run_ids, kind=Group.Kind.TRAINING, batch__isnull=False)
        .filter(reward_mean__range=(-MAX_FIGURE, MAX_FIGURE))
        .order_by()
        .values("run_id", "batch")
        .annotate(
            mean=Avg("reward_mean"),
            spread=StdDev("reward_mean"),
            low=Min("reward_mean"),
            high=Max("reward_mean"),
            num=Count("pk"),
        )
        .order_by("run_id", "batch")
    )
    curves: dict[int, list[StepReward]] = defaultdict(list)
    for row in rows:
        low = max(row["low"], row["mean"] - row["spread"])
        high = min(row["high"], row["mean"] + row["spread"])
        curves[row["run_id"]].append(StepReward(row["batch"], row["mean"], low, high, row["num"]))
    return curves


def outcome_counts(run: Run) -> OutcomeCounts:
    done = Q(state__in=[Execution.State.FINISHED, Execution.State.CANCELLED])
    row = Execution.objects.filter(run=run, group__kind=Group.Kind.TRAINING).aggregate(
        finished=Count("pk", filter=done),
        cancelled=Count("pk", filter=Q(state=Execution.State.CANCELLED, launched_at__isnull=False)),
        unresolved=Count("pk", filter=Q(outcome=Execution.Outcome.UNRESOLVED)),
        timed_out=Count("pk", filter=Q(timed_out=True)),
        false_forks=Sum("num_false_forks"),
        calls=Sum("num_calls"),
        running=Count("pk", filter=Q(state__in=[Execution.State.RUNNING, Execution.State.EVALUATING])),
    )
    return OutcomeCounts(**{key: value or 0 for key, value in row.items()})


def group_counts(run: Run) -> dict[str, int]:
    """Training groups of the run per state."""
    rows = Group.objects.filter(run=run, kind=Group.Kind.TRAINING).order_by().values_list("state")
    return dict(rows.annotate(Count("pk")))


def equal_reward_groups(run: Run, batch: int | None) -> list[Group]:
    """Usable groups of a batch whose rewards are all equal: they carry no gradient (docs/algorithms.md §6)."""
    if batch is None:
        return []
    groups = Group.objects.filter(run=run, kind=Group.Kind.TRAINING, batch=batch, reward_std=0, num_votes__gte=2)
    return list(groups.order_by("number"))


_WATER_SQL = """
WITH moved AS (
    SELECT g.created_at AS at, 1 AS step FROM agents_execution e JOIN agents_group g ON g.id = e.group_id
    WHERE e.run_id = %(run)s AND g.kind = 'training' AND g.created_at <= %(until)s
  UNION ALL
    SELECT e.finished_at, -1 FROM agents_execution e JOIN agents_group g ON g.id = e.group_id
    WHERE e.run_id = %(run)s AND g.kind = 'training' AND e.finished_at <= %(until)s
), binned AS (
    SELECT GREATEST(-1, FLOOR(EXTRACT(EPOCH FROM at - %(since)s) / %(width_s)s))::bigint AS bin,
           SUM(step) FILTER (WHERE step > 0) AS up, SUM(-step) FILTER (WHERE step < 0) AS down,
           MIN(EXTRACT(EPOCH FROM at)) AS first_at, MAX(EXTRACT(EPOCH FROM at)) AS last_at
    FROM moved GROUP BY bin
)
SELECT bin, first_at, last_at, COALESCE(up, 0), COALESCE(down, 0) FROM binned ORDER BY bin
"""


def waterlevel_series(run: Run, since: datetime, until: datetime, max_points: int = 600) -> list[tuple[float, int]]:
    """W = D - F over time as (epoch seconds, executions), at most about `max_points` of them (docs/algorithms.md §9).

    One aggregate over the run's rows, whatever their number. A burst keeps its upright edge: a bin in which the level
    rises yields the level before it, at its first change, and the level after it, at its last.
    """
    width_s = max((until - since).total_seconds() / max_points, 0.001)
    with connection.cursor() as cursor:
        cursor.execute(_WATER_SQL, {"run": run.pk, "since": since, "until": until, "width_s": width_s})
        rows: list[tuple[int, Any, Any, int, int]] = cursor.fetchall()
    level, points = 0, [(since.timestamp(), 0)]
    for bin_number, first_at, last_at, up, down in rows:
        if bin_number < 0:
            level += int(up) - int(down)
            points[0] = (since.timestamp(), level)
            continue
        if up:
            points.append((float(first_at), level))
        level += int(up) - int(down)
        points.append((float(last_at) if up or down else float(first_at), level))
    return points


_RECENT_WATER_SQL = """
SELECT EXTRACT(EPOCH FROM at), SUM(step) FROM (
    SELECT g.created_at AS at, 1 AS step FROM agents_execution e JOIN agents_group g ON g.id = e.group_id
    WHERE e.run_id = %(run)s AND g.kind = 'training' AND g.created_at > %(since)s
  UNION ALL
    SELECT e.finished_at, -1 FROM agents_execution e JOIN agents_group g ON g.id = e.group_id
    WHERE e.run_id = %(run)s AND g.kind = 'training' AND e.finished_at > %(since)s
) moved GROUP BY at ORDER BY at
"""


def recent_waterlevel(run: Run, since: datetime) -> list[tuple[float, int]]:
    """Every change of W after `since`, and the level then: (epoch seconds, executions), up to the level of the row."""
    with connection.cursor() as cursor:
        cursor.execute(_RECENT_WATER_SQL, {"run": run.pk, "since": since})
        changes = [(float(at), int(step)) for at, step in cursor.fetchall()]
    level = run.waterlevel - sum(step for _, step in changes)
    points = [(since.timestamp(), level)]
    for at, step in changes:
        level += step
        points.append((at, level))
    return points


def events_after(run: Run, seq: int, limit: int) -> list[RunEvent]:
    return list(RunEvent.objects.filter(run=run, seq__gt=seq).order_by("seq")[:limit])


def newest_seq(run_id: int) -> int:
    """The doorbell's number, or 0 for a run that is gone."""
    return Run.objects.filter(pk=run_id).values_list("event_seq", flat=True).first() or 0


def open_alarms(run: Run) -> list[RunEvent]:
    """Alarms that were raised and not cleared since, newest first. Alarms of one `code` are one alarm."""
    found: dict[str, RunEvent | None] = {}
    kinds = ["alarm_raised", "alarm_cleared"]
    for event in RunEvent.objects.filter(run=run, kind__in=kinds).order_by("-seq")[:200]:
        code = str(event.payload.get("code") or event.payload.get("alarm") or event.seq)
        if code not in found:
            found[code] = event if event.kind == "alarm_raised" else None
    return [event for event in found.values() if event]
