"""Queries behind the groups list and a group's page: rewards, votes, and what unresolved executions did to them."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Count, Q, QuerySet

from agents.actions.errors import NotFound
from agents.core.exclusion import Exclusion
from agents.models import Execution, Group, Run
from agents.models.figures import MAX_FIGURE
from agents.report import exclusion_of
from agents.web.access import Viewer, visible_runs

PAGE_SIZE = 50
STATES = list(Group.State.values)
NUM_BINS = 20


@dataclass(frozen=True)
class Filters:
    """What the query string of the list may say. Empty means all; evaluations only where asked for."""

    state: str = ""
    kind: str = str(Group.Kind.TRAINING)
    text: str = ""
    unresolved: bool = False
    before: int | None = None

    @classmethod
    def from_query(cls, query: Any) -> Filters:
        before = query.get("before", "")
        return cls(
            state=query.get("state", "") if query.get("state") in STATES else "",
            kind=query.get("kind") if query.get("kind") in Group.Kind.values else str(Group.Kind.TRAINING),
            text=query.get("q", "").strip()[:120],
            unresolved=query.get("unresolved", "").lower() in ("1", "true"),
            before=int(before) if before.isdecimal() and len(before) < 16 else None,
        )

    def query(self) -> dict[str, str]:
        """The filters as query parameters, without the place in the list."""
        kind = self.kind if self.kind != Group.Kind.TRAINING else ""
        values = {"state": self.state, "kind": kind, "q": self.text, "unresolved": "1" if self.unresolved else ""}
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True)
class GroupRow:
    """A group with the rewards of its executions (None: none yet, or no verdict) in their order."""

    group: Group
    rewards: list[float | None]
    num_executions: int
    num_ended: int
    num_unresolved: int
    effect: Exclusion
    strip: Strip


@dataclass(frozen=True)
class Strip:
    """A group's votes on a line from 0 to 1, or as far as they reach, in hundredths of its length.

    `mean`: where they are on average; `mean_as_zero`: where they would be if unresolved executions counted as zero.
    """

    dots: list[Dot]
    mean: float | None
    mean_as_zero: float | None


@dataclass(frozen=True)
class Dot:
    """A vote; dots at one place are stacked: `height` is 0 for the lowest, at most 1."""

    x: float
    height: float
    index: int
    reward: float


@dataclass(frozen=True)
class Bin:
    """Executions with a reward in [low, high), in the last bin also `high`. `height`: percent of the tallest bin."""

    low: float
    high: float
    count: int
    height: float
    link: str


@dataclass(frozen=True)
class Histogram:
    """Rewards of a run's executions. `num_without`: those that ended without one."""

    bins: list[Bin]
    low: float
    high: float
    num_votes: int
    num_without: int
    mean: float | None


def groups_of(run: Run, filters: Filters) -> QuerySet[Group]:
    rows = Group.objects.filter(run=run, kind=filters.kind).select_related("task")
    if filters.state:
        rows = rows.filter(state=filters.state)
    if filters.text:
        found = Q(task__name__icontains=filters.text) | Q(task__kind__icontains=filters.text)
        rows = rows.filter(found | Q(number=int(filters.text)) if filters.text.isdecimal() else found)
    unresolved = Count("executions", filter=Q(executions__outcome=Execution.Outcome.UNRESOLVED))
    rows = rows.annotate(num_unresolved=unresolved)
    return rows.filter(num_unresolved__gt=0) if filters.unresolved else rows


def page(run: Run, filters: Filters, size: int = PAGE_SIZE) -> tuple[list[GroupRow], int | None]:
    """The newest `size` groups below `filters.before`, and the key of the next page if there is one."""
    rows = groups_of(run, filters).order_by("-id")
    if filters.before is not None:
        rows = rows.filter(pk__lt=filters.before)
    found = list(rows[: size + 1])
    more, found = len(found) > size, found[:size]
    return _with_rewards(found), found[-1].pk if more else None


def group_for(run: Run, kind: str, number: int) -> Group:
    """Raises NotFound."""
    unresolved = Count("executions", filter=Q(executions__outcome=Execution.Outcome.UNRESOLVED))
    rows = Group.objects.filter(run=run, kind=kind, number=number).select_related("task")
    group = rows.annotate(num_unresolved=unresolved).first()
    if group is None:
        raise NotFound(f"run {run.pk} has no {kind} group {number}")
    return group


def row_by_id(viewer: Viewer, group_id: int) -> GroupRow:
    """Raises NotFound for a group that does not exist or that the viewer cannot see."""
    found = Group.objects.filter(pk=group_id, run__in=visible_runs(viewer)).select_related("run").first()
    if found is None:
        raise NotFound(f"group {group_id} does not exist")
    return row_of(group_for(found.run, found.kind, found.number))


def row_of(group: Group) -> GroupRow:
    return _with_rewards([group])[0]


def executions_of(group: Group) -> list[Execution]:
    """In their order, each with its selection's figures."""
    rows = Execution.objects.filter(group=group).select_related("group", "group__task", "selection")
    return list(rows.defer("harness_log", "exclusions", "sandbox").order_by("index"))


def _with_rewards(groups: list[Group]) -> list[GroupRow]:
    members: dict[int, list[tuple[int, str, float | None]]] = defaultdict(list)
    rows = Execution.objects.filter(group__in=groups).order_by("group", "index")
    for group_id, index, state, reward in rows.values_list("group", "index", "state", "reward"):
        members[group_id].append((index, state, reward))
    over = (Execution.State.FINISHED, Execution.State.CANCELLED)
    return [
        GroupRow(
            group=group,
            rewards=[reward for _, _, reward in members[group.pk]],
            num_executions=len(members[group.pk]),
            num_ended=sum(state in over for _, state, _ in members[group.pk]),
            num_unresolved=group.num_unresolved,
            effect=exclusion_of(group, group.num_unresolved),
            strip=_strip(
                [(index, reward) for index, _, reward in members[group.pk] if reward is not None],
                exclusion_of(group, group.num_unresolved),
            ),
        )
        for group in groups
    ]


def _strip(votes: list[tuple[int, float]], effect: Exclusion) -> Strip:
    values = [reward for _, reward in votes]
    low, high = min([0.0, *values]), max([1.0, *values])

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 1)

    columns: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for index, reward in sorted(votes, key=lambda vote: vote[1]):
        columns[round(place(reward) / 6)].append((index, reward))
    dots = [
        Dot(place(reward), level / max(3, len(column) - 1), index, reward)
        for column in columns.values()
        for level, (index, reward) in enumerate(column)
    ]
    shifted = effect.mean_as_zero if effect.num_unresolved and effect.mean is not None else None
    return Strip(dots, None if effect.mean is None else place(effect.mean), None if shifted is None else place(shifted))


def histogram(run: Run, kind: str, group: Group | None = None) -> Histogram:
    """Rewards in up to `NUM_BINS` bins over 0 … 1, or over all that occurs; one query, whatever the run's size."""
    where, values = ("AND g.id = %(group)s", {"group": group.pk}) if group else ("", {})
    query = f"""
        WITH votes AS (
            SELECT CASE WHEN e.reward BETWEEN -%(limit)s AND %(limit)s THEN e.reward END AS reward, e.outcome
            FROM agents_execution e JOIN agents_group g ON g.id = e.group_id
            WHERE e.run_id = %(run)s AND g.kind = %(kind)s AND e.outcome <> '' {where}
        ), edges AS (SELECT least(0, min(reward)) AS low, greatest(1, max(reward)) AS high FROM votes)
        SELECT low, high, width_bucket(reward, low, high, %(bins)s) AS bin, count(*), sum(reward)
        FROM votes CROSS JOIN edges GROUP BY low, high, bin ORDER BY bin
    """
    values |= {"run": run.pk, "kind": kind, "bins": NUM_BINS, "limit": MAX_FIGURE}
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        rows = cursor.fetchall()
    if not rows:
        return Histogram([], 0.0, 1.0, 0, 0, None)
    low, high = (1.0 if value is None else float(value) for value in rows[0][:2])
    low = 0.0 if rows[0][0] is None else low
    counts = [0] * NUM_BINS
    for _, _, number, count, _ in rows:
        if number is not None:
            counts[min(int(number), NUM_BINS) - 1] += int(count)
    num_votes = sum(counts)
    total = math.fsum(float(row[4]) for row in rows if row[4] is not None)
    without = sum(int(row[3]) for row in rows if row[2] is None)
    edges = [low + (high - low) * i / NUM_BINS for i in range(NUM_BINS + 1)]
    tallest = max(counts, default=0)
    bins = [
        Bin(edges[i], edges[i + 1], count, 100 * count / tallest if tallest else 0.0, _link(edges, i, kind, group))
        for i, count in enumerate(counts)
    ]
    return Histogram(bins, low, high, num_votes, without, total / num_votes if num_votes else None)


def _link(edges: list[float], index: int, kind: str, group: Group | None) -> str:
    """Query of the executions page that shows a bin; the last one has no upper end."""
    found = f"kind={kind}&reward_from={edges[index]:.10g}"
    if index < len(edges) - 2:
        found += f"&reward_below={edges[index + 1]:.10g}"
    return found + (f"&group={group.number}" if group else "")
