"""What-ifs of a run as pages and API show them: state, progress, answers, recommendation."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from agents.actions.errors import NotFound
from agents.models import Run
from scheduler.models import WhatIf, WhatIfPoint
from scheduler.simulator.whatif.answer import (
    AgainstRecorded,
    PointAnswer,
    against_recorded,
    answers,
    best_of,
    recommendation,
)
from scheduler.simulator.whatif.question import SPANS, Question, describe

#: A worker that takes longer than this to begin or to renew its lease is worth a word.
LATE_S = 10.0
SPAN_WORDS = dict(zip(SPANS, ("the next hours", "the rest of the run", "the whole run"), strict=True))


@dataclass(frozen=True)
class Shown:
    """A what-if ready to be read. `points` and `recommendation` grow while it is worked on."""

    row: WhatIf
    question: Question
    points: list[PointAnswer] = field(default_factory=list)
    recommendation: list[str] = field(default_factory=list)
    best: PointAnswer | None = None
    note: str = ""
    against: AgainstRecorded | None = None

    @property
    def is_open(self) -> bool:
        return self.row.state in WhatIf.OPEN_STATES

    @property
    def can_go_on(self) -> bool:
        return self.row.state in (WhatIf.State.INTERRUPTED, WhatIf.State.CANCELLED)

    @property
    def span(self) -> str:
        """ "the next 6 hours", "the rest of the run"."""
        if self.question.span == "hours":
            return "the next hour" if self.question.hours == 1 else f"the next {self.question.hours:g} hours"
        return SPAN_WORDS[self.question.span]

    @property
    def asked(self) -> str:
        """ "rho_min = 0.3, 0.5, 0.8; K = 6"."""
        parts = [[describe({name: value}) for value in values] for name, values in self.question.values.items()]
        return "; ".join(", ".join([found[0], *(one.partition(" = ")[2] for one in found[1:])]) for found in parts)

    @property
    def left_s(self) -> float | None:
        """Seconds to go at the pace so far."""
        row = self.row
        if row.state != WhatIf.State.RUNNING or not row.num_done or row.started_at is None:
            return None
        took_s = (timezone.now() - row.started_at).total_seconds()
        return took_s / row.num_done * (row.num_to_do - row.num_done)

    @property
    def took_s(self) -> float | None:
        row = self.row
        return None if not (row.started_at and row.finished_at) else (row.finished_at - row.started_at).total_seconds()


def what_ifs_of(run: Run, limit: int = 20) -> list[Shown]:
    """Newest first, without their points."""
    return [Shown(row, Question.from_json(row.question)) for row in _rows(run)[:limit]]


def what_if_of(run: Run, what_if_id: int | None) -> Shown:
    """With points and recommendation. Without an id the newest. Raises NotFound."""
    rows = _rows(run)
    row = (rows if what_if_id is None else rows.filter(pk=what_if_id)).first()
    if row is None:
        raise NotFound(f"run {run.pk} has no what-if{'' if what_if_id is None else f' {what_if_id}'}")
    found = answers(list(row.points.order_by("number").values("number", "changes", "results")))
    return Shown(
        row=row,
        question=Question.from_json(row.question),
        points=found,
        recommendation=recommendation(found, row.fit),
        best=best_of(found),
        note=_note(row, timezone.now()),
        against=against_recorded(found, row.fit),
    )


def point_of(run: Run, what_if_id: int, number: int) -> WhatIfPoint:
    """Raises NotFound."""
    rows = WhatIfPoint.objects.select_related("what_if__run").defer("what_if__inputs")
    point = rows.filter(what_if__run=run, what_if=what_if_id, number=number).first()
    if point is None:
        raise NotFound(f"what-if {what_if_id} of run {run.pk} has no point {number}")
    return point


def _rows(run: Run) -> QuerySet[WhatIf]:
    return WhatIf.objects.filter(run=run).select_related("owner", "run").defer("inputs").order_by("-pk")


def _note(row: WhatIf, now: datetime) -> str:
    """What is unusual about its progress."""
    if row.state == WhatIf.State.QUEUED and (now - row.created_at).total_seconds() > LATE_S:
        return "No worker has taken it up yet: `make status` says whether worker-control runs."
    if row.state == WhatIf.State.RUNNING and row.lease_expires_at is not None and row.lease_expires_at < now:
        silent_s = (now - row.lease_expires_at).total_seconds()
        return f"Its worker is silent since {silent_s:.0f} s; the next free one goes on from here."
    return ""


def details(shown: Shown) -> dict[str, Any]:
    """Plain values for a machine."""
    row = shown.row
    return {
        "id": row.pk,
        "state": row.state,
        "error": row.error,
        "owner": row.owner.get_username() if row.owner else "",
        "span": shown.question.span,
        "hours": shown.question.hours if shown.question.span == "hours" else None,
        "seeds": shown.question.seeds,
        "present": shown.question.present,
        "settings": {name: list(values) for name, values in shown.question.values.items()},
        "num_done": row.num_done,
        "num_to_do": row.num_to_do,
        "target_version": row.target_version,
        "fit": row.fit,
        "created_at": row.created_at,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "points": [_point(point) for point in shown.points],
        "recommendation": shown.recommendation,
    }


def _point(point: PointAnswer) -> dict[str, Any]:
    found: dict[str, Any] = {
        "number": point.number, "changes": dict(point.changes), "label": point.label, "verdict": point.words,
        "num_done": point.num_done, "error": point.error, "steps": point.steps, "E_d": point.mean_staleness,
        "can_apply": bool(point.changes) and not point.why_not_live, "why_not": point.why_not_live,
    }  # fmt: skip
    for name in ("hours", "hours_per_step", "cell_hours", "ratio", "cell_ratio"):
        interval = getattr(point, name)
        found[name] = None if interval is None else [interval.mean, interval.low, interval.high]
    return found
