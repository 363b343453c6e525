"""Decisions as sentences: what, to which cell, and why or why not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django.db.models import QuerySet

from agents.models import Run
from scheduler.actions.set_override import Preview
from scheduler.models import Cell, Decision

PAGE_SIZE = 100
#: A headline longer than this is no headline.
MAX_HEAD = 64
#: Kinds that only move rows along; the overview leaves them to the full list.
ROUTINE = ("launch", "admit_group", "launch_evaluation")


class DecisionLike(Protocol):
    """A decision of a live run or of a simulated one."""

    number: int
    kind: str
    cell_index: int | None
    params: dict[str, Any]
    reason: str
    accepted: bool


@dataclass(frozen=True)
class Sentence:
    """A decision ready to be read. `tone` picks glyph and colour: rollout, training, stays, run, alarm.

    `at` is the time of a live decision, and seconds since dispatch of a simulated one.
    """

    number: int
    at: datetime | float
    tone: str
    tag: str
    head: str
    why: str
    accepted: bool
    params: dict[str, Any]


def decisions_of(
    run: Run, *, limit: int = PAGE_SIZE, before: int | None = None, after: int | None = None, kind: str = "",
    cell_index: int | None = None, accepted: bool | None = None,
    routine: bool = True,
) -> list[Decision]:  # fmt: skip
    """Newest first, by key. Snapshots stay in the database."""
    rows = Decision.objects.filter(run=run)
    if after is not None:
        rows = rows.filter(number__gt=after)
    rows = chosen(rows, before=before, kind=kind, cell_index=cell_index, accepted=accepted, routine=routine)
    return list(rows[:limit])


def chosen(
    rows: QuerySet[Any], *, before: int | None, kind: str, cell_index: int | None, accepted: bool | None, routine: bool
) -> QuerySet[Any]:
    """Of the decisions of a live or a simulated run, those that a page asks for, newest first, without snapshots."""
    rows = rows.defer("snapshot").order_by("-number")
    if before is not None:
        rows = rows.filter(number__lt=before)
    if kind:
        rows = rows.filter(kind=kind)
    if cell_index is not None:
        rows = rows.filter(cell_index=cell_index)
    if accepted is not None:
        rows = rows.filter(accepted=accepted)
    return rows if routine else rows.exclude(kind__in=ROUTINE)


def decisions_between(run: Run, since: datetime, until: datetime, limit: int = 400) -> list[Decision]:
    """Decisions in a window for the chart's cursor, without the routine ones, newest first."""
    rows = Decision.objects.filter(run=run, created_at__gte=since, created_at__lte=until).exclude(kind__in=ROUTINE)
    return list(rows.defer("snapshot").order_by("-number")[:limit])


def decision_kinds(run: Run) -> list[str]:
    return list(Decision.objects.filter(run=run).order_by("kind").values_list("kind", flat=True).distinct())


def num_decisions(run: Run) -> int:
    newest = Decision.objects.filter(run=run).order_by("-number").values_list("number", flat=True).first()
    return newest or 0


def inputs_of(run: Run, number: int) -> dict[str, Any] | None:
    """The snapshot that `decide` saw for this decision: it stands on the first decision of the evaluation."""
    row = Decision.objects.filter(run=run, number=number).values_list("evaluation_number", flat=True).first()
    if row is None:
        return None
    rows = Decision.objects.filter(run=run, evaluation_number=row, snapshot__isnull=False)
    return rows.values_list("snapshot", flat=True).first()


def sentences(decisions: list[Decision], cells: list[Cell]) -> list[Sentence]:
    names = {cell.index: str(cell) for cell in cells}
    return [sentence(decision, decision.created_at, names) for decision in decisions]


def sentence(decision: DecisionLike, at: datetime | float, names: dict[int, str]) -> Sentence:
    """A reason reads "cell 1 stays in rollout: 1 x 64 < W 70": headline, then numbers. A short one is all headline."""
    tone, tag = _tone(decision)
    text = typeset(decision.reason)
    head, colon, why = text.partition(": ")
    if not colon and len(text) <= MAX_HEAD:
        why = ""
    elif not colon or len(head) > MAX_HEAD:
        head, why = decision.kind.replace("_", " "), text
        if decision.cell_index is not None:
            head = f"{head}, {names.get(decision.cell_index, f'cell {decision.cell_index}')}"
    return Sentence(decision.number, at, tone, tag, head, why, decision.accepted, decision.params)


@dataclass(frozen=True)
class Difference:
    """What a preview changes: (accepted, reason) of decisions that come and that go, and how many stay."""

    new: list[tuple[bool, str]]
    gone: list[tuple[bool, str]]
    num_same: int


def difference(preview: Preview) -> Difference:
    without = [(d.accepted, typeset(d.reason)) for d in preview.without]
    with_it = [(d.accepted, typeset(d.reason)) for d in preview.with_it]
    return Difference(
        new=[line for line in with_it if line not in without],
        gone=[line for line in without if line not in with_it],
        num_same=sum(line in without for line in with_it),
    )


def typeset(reason: str) -> str:
    """Signs instead of their ASCII stand-ins."""
    for plain, sign in ((" x ", " × "), (">=", "≥"), ("<=", "≤"), (" rho ", " ρ ")):
        reason = reason.replace(plain, sign)
    return reason


def _tone(decision: DecisionLike) -> tuple[str, str]:
    """(tone, tag): the role that it leads to, what it touches, or that nothing changed."""
    if not decision.accepted:
        return ("stays", "stays") if decision.kind in _MOVES else ("stays", "not yet")
    return _TONES.get(decision.kind, ("run", decision.kind.split("_")[0]))


_MOVES = {"leave_rollout", "return_to_rollout", "drain_cell"}
_TONES = {
    "leave_rollout": ("training", "training"),
    "return_to_rollout": ("rollout", "rollout"),
    "start_cell": ("rollout", "start"),
    "drain_cell": ("override", "drain"),
    "dispatch_burst": ("run", "dispatch"),
    "launch": ("run", "launch"),
    "open_batch": ("training", "batch"),
    "admit_group": ("training", "admit"),
    "seal_batch": ("training", "seal"),
    "start_evaluation": ("run", "evaluate"),
    "reserve_cell": ("run", "evaluate"),
    "launch_evaluation": ("run", "evaluate"),
    "cancel_evaluation": ("alarm", "cancel"),
    "raise_alarm": ("alarm", "alarm"),
    "finish_run": ("run", "finish"),
}
