"""Queries behind the executions list and an execution's page. Lists page by key, never by offset."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Coalesce

from agents.models import Assessment, Draw, Execution, Group, Reassessment, Run, SelectionRecord, Trajectory

PAGE_SIZE = 50
OUTCOMES = list(Execution.Outcome.values)
STATES = list(Execution.State.values)
LIST_FIELDS = (
    "id", "index", "attempt", "state", "outcome", "reason_code", "reward", "advantage", "timed_out", "num_calls",
    "num_unique_tokens", "num_sampled_tokens", "num_total_tokens", "num_false_forks", "min_version", "max_version",
    "queued_at", "launched_at", "finished_at", "held_s", "hit_turn_limit", "num_malformed_calls", "run_id",
    "group__number", "group__kind", "group__batch", "group__evaluation", "group__task__name", "group__task__kind",
)  # fmt: skip


@dataclass(frozen=True)
class Filters:
    """What the query string of the list may say. Empty means all."""

    state: str = ""
    outcome: str = ""
    kind: str = ""
    text: str = ""
    group: int | None = None
    batch: int | None = None
    reward_from: float | None = None
    reward_below: float | None = None
    before: int | None = None

    @classmethod
    def from_query(cls, query: Any) -> Filters:
        return cls(
            state=query.get("state", "") if query.get("state") in [*STATES, "live"] else "",
            outcome=query.get("outcome", "") if query.get("outcome") in OUTCOMES else "",
            kind=query.get("kind", "") if query.get("kind") in Group.Kind.values else "",
            text=query.get("q", "").strip()[:120],
            group=_number(query.get("group")),
            batch=_number(query.get("batch")),
            reward_from=_real(query.get("reward_from")),
            reward_below=_real(query.get("reward_below")),
            before=_number(query.get("before")),
        )

    def query(self) -> dict[str, str]:
        """The filters as query parameters, without the place in the list."""
        values = {"state": self.state, "outcome": self.outcome, "kind": self.kind, "q": self.text}
        values |= {"group": "" if self.group is None else str(self.group)}
        values |= {"batch": "" if self.batch is None else str(self.batch)}
        values |= {"reward_from": "" if self.reward_from is None else f"{self.reward_from:g}"}
        values |= {"reward_below": "" if self.reward_below is None else f"{self.reward_below:g}"}
        return {name: value for name, value in values.items() if value}


def _number(raw: str | None) -> int | None:
    return int(raw) if raw and raw.isdecimal() and len(raw) < 16 else None


def _real(raw: str | None) -> float | None:
    try:
        value = float(raw or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def filtered(run: Run, filters: Filters) -> QuerySet[Execution]:
    rows = Execution.objects.filter(run=run).select_related("group", "group__task")
    if filters.state == "live":
        rows = rows.filter(state__in=[Execution.State.RUNNING, Execution.State.EVALUATING])
    elif filters.state:
        rows = rows.filter(state=filters.state)
    if filters.outcome:
        rows = rows.filter(outcome=filters.outcome)
    if filters.kind:
        rows = rows.filter(group__kind=filters.kind)
    if filters.group is not None:
        rows = rows.filter(group__number=filters.group)
    if filters.batch is not None:
        rows = rows.filter(group__batch=filters.batch)
    if filters.reward_from is not None:
        rows = rows.filter(reward__gte=filters.reward_from)
    if filters.reward_below is not None:
        rows = rows.filter(reward__lt=filters.reward_below)
    if filters.text:
        number = _number(filters.text)
        found = Q(group__task__name__icontains=filters.text) | Q(reason_code__icontains=filters.text)
        found |= Q(group__task__kind__icontains=filters.text)
        rows = rows.filter(found | Q(pk=number) if number is not None else found)
    return rows.only(*LIST_FIELDS)


def page(run: Run, filters: Filters, size: int = PAGE_SIZE) -> tuple[list[Execution], int | None]:
    """The newest `size` executions older than `filters.before`, and the key of the next page if there is one."""
    rows = filtered(run, filters).order_by("-id")
    if filters.before is not None:
        rows = rows.filter(pk__lt=filters.before)
    found = list(rows[: size + 1])
    more = len(found) > size
    return found[:size], found[size - 1].pk if more else None


def num_ended(run: Run, filters: Filters) -> int:
    """How many of the filtered executions an export would hold."""
    return filtered(run, filters).filter(state__in=[Execution.State.FINISHED, Execution.State.CANCELLED]).count()


def longest(run: Run, now: datetime, count: int = 6) -> list[Execution]:
    """Training executions that took longest; one that still runs counts up to now. Held time is not the agent's."""
    return list(
        Execution.objects.filter(run=run, launched_at__isnull=False, group__kind=Group.Kind.TRAINING)
        .select_related("group", "group__task")
        .annotate(took=Coalesce(F("finished_at"), Value(now)) - F("launched_at"))
        .only(*LIST_FIELDS)
        .order_by("-took")[:count]
    )


def siblings(execution: Execution) -> list[Execution]:
    """All executions of its group, in order."""
    rows = Execution.objects.filter(group_id=execution.group_id).select_related("group", "group__task")
    return list(rows.only(*LIST_FIELDS).order_by("index"))


def assessments(execution: Execution) -> list[Assessment]:
    """Every verdict, newest first, each with the request that asked for it if one did."""
    rows = execution.assessments.select_related("reassessment__owner").order_by("-id")
    return list(rows)


def reassessments(execution: Execution) -> list[Reassessment]:
    return list(execution.reassessments.select_related("owner").order_by("-id"))


def open_reassessment(execution: Execution) -> Reassessment | None:
    """The newest request for another verdict that has none: it waits, is worked on, or failed."""
    rows = execution.reassessments.filter(assessment=None).select_related("owner")
    return rows.order_by("-id").first()


def trajectories(execution: Execution) -> list[Trajectory]:
    return list(execution.trajectories.filter(attempt=execution.attempt).order_by("number"))


def draws(execution: Execution) -> list[Draw]:
    return list(execution.draws.filter(attempt=execution.attempt).order_by("number"))


def selection_record(execution: Execution) -> SelectionRecord | None:
    """Bounds and costs of its selection; None before admission."""
    return SelectionRecord.objects.filter(execution=execution, attempt=execution.attempt).first()
