"""The form of the what-if page, and its answers as rows with a drawing of their interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any

from django.http import QueryDict

from scheduler.core.policies import REGISTRY
from scheduler.simulator.web.what_ifs import Shown
from scheduler.simulator.whatif.answer import Interval, PointAnswer
from scheduler.simulator.whatif.question import CHOICES, USUAL_SEEDS, BadQuestion, Choice, Question
from scheduler.simulator.whatif.question import ask as ask_question
from scheduler.simulator.whatif.reading import Present

#: Simulated seconds of one run, as a guess before the first is done.
USUAL_HOURS = 6
#: Width of the drawing of an interval, in its own units.
WIDTH = 200.0
MIN_SHARE = 0.05
MARGIN = 6.0
EXPIRIES = ((3600, "1 hour"), (6 * 3600, "6 hours"), (86_400, "1 day"), (7 * 86_400, "7 days"))


@dataclass(frozen=True)
class Field:
    """One setting: its value now, and what is to be tried."""

    choice: Choice
    now: str
    value: str
    problem: str = ""
    options: tuple[tuple[str, bool], ...] = ()  # for the policy: (name, chosen)

    @property
    def changed(self) -> bool:
        return self.value.strip() != self.now


@dataclass(frozen=True)
class Form:
    fields: list[Field]
    span: str
    hours: str
    seeds: str
    problems: dict[str, str]
    question: Question | None

    @property
    def plan(self) -> str:
        """What will be simulated, in numbers."""
        if self.question is None:
            return ""
        points, seeds = len(self.question.points()), self.question.seeds
        return f"{points} settings, the present ones included, × {seeds} seeds = {points * seeds} simulated runs."

    @property
    def general(self) -> list[str]:
        shown = {field.choice.name for field in self.fields} | {"span", "hours", "seeds"}
        return [why for name, why in self.problems.items() if name not in shown]


def form_of(present: Present, data: QueryDict | None, before: Question | None = None) -> Form:
    """The form with what was typed, checked; without data what was asked before, or the present values."""
    if data is None and before is not None:
        asked = {name: ", ".join(as_text(value) for value in values) for name, values in before.values.items()}
        fields = [_field(choice, present, asked, {}) for choice in CHOICES]
        return Form(fields, before.span, as_text(before.hours or USUAL_HOURS), str(before.seeds), {}, before)
    if data is None:
        fields = [_field(choice, present, {}, {}) for choice in CHOICES]
        span = "rest" if present.goes_on else "whole"
        return Form(fields, span, str(USUAL_HOURS), str(USUAL_SEEDS), {}, None)
    typed = {choice.name: data.get(choice.name, "") for choice in CHOICES}
    typed["policy_kind"] = ", ".join(data.getlist("policy_kind"))
    span, hours, seeds = data.get("span", ""), data.get("hours", ""), data.get("seeds", "")
    problems: dict[str, str] = {}
    question = None
    try:
        question = ask_question(present.values, typed, settings=present.settings, span=span, hours=hours, seeds=seeds)
    except BadQuestion as error:
        problems = error.problems
    fields = [_field(choice, present, typed, problems) for choice in CHOICES]
    return Form(fields, span, hours, seeds, problems, question)


def _field(choice: Choice, present: Present, typed: Mapping[str, str], problems: Mapping[str, str]) -> Field:
    now = as_text(present.values[choice.name])
    value = typed.get(choice.name, now)
    options: tuple[tuple[str, bool], ...] = ()
    if choice.name == "policy_kind":
        chosen = {part.strip() for part in value.split(",")}
        options = tuple((kind, kind in chosen) for kind in REGISTRY)
    return Field(choice, now, value, problems.get(choice.name, ""), options)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


@dataclass(frozen=True)
class Whisker:
    """A dot with its interval on a drawing that is `WIDTH` wide; `one` is where the present settings lie."""

    dot: float
    low: float
    high: float
    one: float


@dataclass(frozen=True)
class Row:
    point: PointAnswer
    whisker: Whisker | None
    is_best: bool


def rows_of(shown: Shown) -> list[Row]:
    """Points with their drawings on one common, logarithmic scale of the ratio to the present settings."""
    ratios = [point.ratio for point in shown.points if point.ratio is not None]
    reach = max([MIN_SHARE, *(abs(log(end)) for ratio in ratios for end in (ratio.low, ratio.high))])
    best = shown.best.number if shown.best is not None else None
    return [Row(p, _whisker(p.ratio, reach) if p.ratio else None, p.number == best) for p in shown.points]


def _whisker(ratio: Interval, reach: float) -> Whisker:
    def at(value: float) -> float:
        return round(WIDTH / 2 + log(value) / reach * (WIDTH / 2 - MARGIN), 1)

    return Whisker(at(ratio.mean), at(ratio.low), at(ratio.high), WIDTH / 2)


def chart_of(shown: Shown) -> dict[str, Any] | None:
    """Hours per step over the first swept number, one line for each value of a second one; None without a number."""
    axes = shown.question.axes
    numbers = [name for name in axes if name != "policy_kind"]
    if not numbers or shown.is_open:
        return None
    x_name, others = numbers[0], [name for name in axes if name != numbers[0]]
    by_line: dict[str, list[tuple[float, PointAnswer]]] = {}
    for point in shown.points:
        if point.hours_per_step is None:
            continue
        values = {**shown.question.present, **point.changes}
        fixed = {name: value for name, value in values.items() if name != x_name and name not in others}
        asked = {name: found[0] for name, found in shown.question.values.items() if len(found) == 1}
        if any(fixed.get(name) != value for name, value in asked.items()):
            continue
        line = ", ".join(f"{name} {as_text(values[name])}" for name in others)
        by_line.setdefault(line, []).append((float(values[x_name]), point))
    lines = [
        {
            "label": label or "time per step",
            "points": [
                [x, p.hours_per_step.mean, p.hours_per_step.low, p.hours_per_step.high]
                for x, p in sorted(found, key=lambda pair: pair[0])
                if p.hours_per_step is not None
            ],
        }
        for label, found in by_line.items()
        if len(found) > 1
    ]
    return {"axis": x_name, "now": float(shown.question.present[x_name]), "lines": lines} if lines else None
