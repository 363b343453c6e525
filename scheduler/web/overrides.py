"""Overrides as people read them: what each orders, in force and in the past, and what was decided because of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agents.models import Run, RunEvent
from scheduler.models import Cell, Decision, Override

HISTORY = 50
#: Decisions that are searched for what an override caused, newest first.
SEARCHED = 2_000
#: Reason codes of decisions that name an override.
BY_ORDER = ("override", "pinned")
_NAMED = re.compile(r"\boverride (\d{1,15})\b")


@dataclass(frozen=True)
class Effect:
    """Decisions that name an override as their reason."""

    num_decisions: int
    newest: int


@dataclass(frozen=True)
class Line:
    """An override with its order in words. `state`: in force, released or expired."""

    row: Override
    words: str
    state: str
    ended_at: datetime | None
    ended_by: str
    effect: Effect | None


def in_force(run: Run, now: datetime) -> list[Override]:
    """Newest first."""
    rows = Override.objects.filter(run=run, released_at__isnull=True, expires_at__gt=now)
    return list(rows.select_related("owner").order_by("-id"))


def override_of(run: Run, override_id: int) -> Override | None:
    return Override.objects.filter(run=run, pk=override_id).select_related("owner").first()


def stamp(rows: list[Override]) -> str:
    """Changes whenever one of the overrides in force does: who saw another one saw another state."""
    return ".".join(f"{row.pk}-{row.row_version}" for row in rows)


def words(row: Override, config: Mapping[str, Any], cells: list[Cell]) -> str:
    """What it orders: "cell 1 is pinned to rollout", "rho_min 0.25 → 0.75"."""
    if row.kind == Override.Kind.SETTING:
        name = str(row.value.get("name", ""))
        return f"{name} {_number(config.get(name))} → {_number(row.value.get('value'))}"
    if row.kind == Override.Kind.HOLD_DISPATCH:
        return "dispatch is held"
    names = {cell.index: "the core" if cell.is_core else str(cell) for cell in cells}
    cell = "no cell" if row.cell_index is None else names.get(row.cell_index, f"cell {row.cell_index}")
    if row.kind == Override.Kind.PIN:
        return f"{cell} is pinned to {row.value.get('role')}"
    if row.kind == Override.Kind.DRAIN:
        return f"{cell} is drained"
    return f"{cell} may {'switch' if row.cell_index is None else 'not switch'}"


def lines(run: Run, config: Mapping[str, Any], cells: list[Cell], now: datetime) -> list[Line]:
    """The newest overrides of a run, those in force first."""
    rows = list(Override.objects.filter(run=run).select_related("owner").order_by("-id")[:HISTORY])
    releases = _releases(run) if rows else {}
    effects = _effects(run) if rows else {}
    found = []
    for row in rows:
        if row.released_at is not None:
            state, ended_at = "released", row.released_at
        elif row.expires_at <= now:
            state, ended_at = "expired", row.expires_at
        else:
            state, ended_at = "in force", None
        by = releases.get(row.pk, "")
        found.append(Line(row, words(row, config, cells), state, ended_at, by, effects.get(row.pk)))
    return sorted(found, key=lambda line: line.state != "in force")


def _releases(run: Run) -> dict[int, str]:
    """Who released which override."""
    rows = RunEvent.objects.filter(run=run, kind="override_released").order_by("-seq")[:HISTORY]
    return {int(row.payload.get("override", 0)): str(row.payload.get("by", "")) for row in rows}


def _effects(run: Run) -> dict[int, Effect]:
    rows = Decision.objects.filter(run=run, reason_code__in=BY_ORDER).order_by("-number")
    numbers: dict[int, list[int]] = defaultdict(list)
    for number, reason in rows.values_list("number", "reason")[:SEARCHED]:
        for named in _NAMED.findall(reason):
            numbers[int(named)].append(number)
    return {override: Effect(len(found), found[0]) for override, found in numbers.items()}


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else "?"
