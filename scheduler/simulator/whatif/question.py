"""What is asked: which settings, how far, how many seeds. Checked as a whole, every problem at its field."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduler.core.policies import REGISTRY, policy_of
from scheduler.core.settings import CHANGEABLE, Settings
from scheduler.simulator.core import Workload
from scheduler.simulator.scenarios import BadScenario, Scenario

SPANS = ("hours", "rest", "whole")
MAX_SEEDS, MIN_SEEDS, USUAL_SEEDS = 20, 3, 5
MAX_POINTS = 64
MAX_AXES = 2
MAX_HOURS = 24.0 * 30


@dataclass(frozen=True)
class Choice:
    """A setting that a what-if may change. `live`: it can be changed while the run goes on."""

    name: str
    label: str
    help: str
    whole: bool = True

    @property
    def live(self) -> bool:
        return self.name in CHANGEABLE


CHOICES = (
    Choice("cells", "K", "Cells of the present size: how many GPUs there are."),
    Choice(
        "cell_size", "cell size", "GPUs per cell relative to now, with as many GPUs in all: 2 halves the cells.", False
    ),
    Choice("concurrency_per_cell", "concurrency", "c: executions that a cell of the present size can hold."),
    Choice("rho_min", "rho_min", "Share of B that must be ready before a cell leaves rollout.", False),
    Choice("burst_batches", "S", "Batches dispatched at once."),
    Choice("burst_lead", "lead", "Batches of a burst that may be unconsumed when the next one is dispatched."),
    Choice("max_staleness", "max_staleness", "Bound on every trained token, in versions."),
    Choice("j_max", "J_max", "Most trajectories drawn per execution."),
    Choice("training_cells", "training_cells", "Fixed split of the async policies; 0: half of the cells."),
    Choice("policy_kind", "policy", "Scheduling policy."),
)
BY_NAME = {choice.name: choice for choice in CHOICES}
#: Why what is not live cannot be changed while the run goes on.
NOT_LIVE = {
    "cells": "a run keeps its cells: launch another run with as many",
    "cell_size": "a cell's GPUs and layout are fixed at launch: launch another run",
    "policy_kind": "the policy is fixed at launch: launch another run with it",
    "training_cells": "the split is fixed at launch: launch another run with it, or pin cells",
}


class BadQuestion(ValueError):
    """What is wrong, by field; `form` for what concerns several."""

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{name}: {why}" for name, why in problems.items()))


@dataclass(frozen=True)
class Question:
    """`present`: the run's values now, overrides in force included. `values`: only what differs, each a list."""

    span: str
    hours: float
    seeds: int
    present: Mapping[str, Any]
    values: Mapping[str, tuple[Any, ...]]

    @property
    def axes(self) -> list[str]:
        """Settings with several values: what is swept."""
        return [name for name, values in self.values.items() if len(values) > 1]

    def points(self) -> list[dict[str, Any]]:
        """Changes against the present of every point; the first is the present itself."""
        found: list[dict[str, Any]] = [{}]
        for values in itertools.product(*self.values.values()):
            changes = {
                name: value for name, value in zip(self.values, values, strict=True) if value != self.present.get(name)
            }
            if changes not in found:
                found.append(changes)
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "span": self.span, "hours": self.hours, "seeds": self.seeds, "present": dict(self.present),
            "values": {name: list(values) for name, values in self.values.items()},
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Question:
        values = {name: tuple(found) for name, found in data["values"].items()}
        return cls(data["span"], data["hours"], data["seeds"], data["present"], values)


def present_values(settings: Settings, policy_kind: str) -> dict[str, Any]:
    """What the form begins with."""
    found: dict[str, Any] = {choice.name: getattr(settings, choice.name, None) for choice in CHOICES}
    return found | {"cell_size": 1.0, "policy_kind": policy_kind}


def ask(
    present: Mapping[str, Any], wanted: Mapping[str, Any], *, settings: Settings, span: str, hours: Any, seeds: Any
) -> Question:
    """`wanted`: by setting one value, a list, or text as in "4, 6, 8". Raises BadQuestion with every problem."""
    problems: dict[str, str] = {}
    values: dict[str, tuple[Any, ...]] = {}
    for name, raw in wanted.items():
        if name not in BY_NAME:
            problems[name] = f"unknown; what can be asked: {', '.join(BY_NAME)}"
            continue
        try:
            found = _values(BY_NAME[name], raw)
        except ValueError as error:
            problems[name] = str(error)
            continue
        if found and found != (present.get(name),):
            values[name] = found
    if span not in SPANS:
        problems["span"] = f"{span!r} is unknown; known: {', '.join(SPANS)}"
    number = _number("hours", hours, problems) if span == "hours" else 0.0
    if span == "hours" and number is not None and not 0 < number <= MAX_HOURS:
        problems["hours"] = f"more than 0 and at most {MAX_HOURS:g} hours, got {number:g}"
    count = _number("seeds", seeds, problems)
    if count is not None and (count != int(count) or not MIN_SEEDS <= count <= MAX_SEEDS):
        problems["seeds"] = f"a whole number from {MIN_SEEDS} to {MAX_SEEDS}; fewer than {MIN_SEEDS} give no interval"
    if problems:
        raise BadQuestion(problems)
    question = Question(span, number or 0.0, int(count or 0), dict(present), values)
    _check(question, settings)
    return question


def _check(question: Question, settings: Settings) -> None:
    problems: dict[str, str] = {}
    points = question.points()
    if not question.values:
        problems["form"] = "nothing differs from the present: change a setting, or give several values as in 4, 6, 8"
    elif len(question.axes) > MAX_AXES:
        problems["form"] = f"at most {MAX_AXES} settings can have several values, {len(question.axes)} have"
    elif len(points) > MAX_POINTS:
        problems["form"] = f"{len(points)} combinations are too many; at most {MAX_POINTS}"
    else:
        scenario = Scenario("present", settings, Workload())
        for changes in points[1:]:
            try:
                scenario_of(scenario, changes, question.present)
            except BadScenario as error:
                named = [name for name in changes if name in str(error)]
                problems.setdefault(named[0] if named else next(iter(changes)), f"{describe(changes)}: {error}")
    if problems:
        raise BadQuestion(problems)


def scenario_of(scenario: Scenario, changes: Mapping[str, Any], present: Mapping[str, Any]) -> Scenario:
    """The scenario with the changes of one point. Raises BadScenario for what cannot be.

    A cell of size s holds s times the executions and trains s times as fast, and there are 1/s as many.
    """
    policy = changes.get("policy_kind", present["policy_kind"])
    try:
        policy_of(policy)
    except KeyError as error:
        raise BadScenario(error.args[0]) from None
    plain = {name: value for name, value in changes.items() if name not in ("cell_size", "policy_kind")}
    size = changes.get("cell_size", 1.0)
    if size != 1.0:
        cells = plain.get("cells", scenario.settings.cells) / size
        room = plain.get("concurrency_per_cell", scenario.settings.concurrency_per_cell) * size
        if cells != int(cells) or cells < 1 or room != int(room) or room < 1:
            raise BadScenario(f"cell_size {size:g} gives {cells:g} cells of {room:g} executions, which must be whole")
        plain |= {"cells": int(cells), "concurrency_per_cell": int(room)}
    least = min(scenario.settings.min_rollout_cells, int(plain.get("cells", scenario.settings.cells)))
    changed = replace(scenario, settings=replace(scenario.settings, min_rollout_cells=least)).changed(plain)
    if size != 1.0:
        changed = changed.changed({"train_cell_h": changed.workload.train_cell_h / size})
    if policy.startswith("async"):
        if changed.settings.cells < 2:
            raise BadScenario(f"policy_kind {policy} splits the cells and needs at least 2")
        if policy == "async-best" and not changed.settings.training_cells:
            raise BadScenario("policy_kind async-best needs training_cells, the split; try several")
    return changed


def describe(changes: Mapping[str, Any]) -> str:
    """ "K = 6, rho_min = 0.3"; of no changes "the present settings"."""
    if not changes:
        return "the present settings"
    return ", ".join(
        f"{choice.label} = {value if isinstance(value := changes[choice.name], str) else f'{value:g}'}"
        for choice in CHOICES
        if choice.name in changes
    )


def why_not_live(changes: Mapping[str, Any]) -> str:
    """Why these changes cannot be made while the run goes on; empty when all of them can."""
    return "; ".join(f"{BY_NAME[name].label}: {NOT_LIVE[name]}" for name in changes if not BY_NAME[name].live)


def _values(choice: Choice, raw: Any) -> tuple[Any, ...]:
    parts: Iterable[Any] = raw if isinstance(raw, list | tuple) else str(raw).replace(";", ",").split(",")
    found: list[Any] = []
    for part in parts:
        text = str(part).strip()
        if text and (value := _value(choice, text)) not in found:
            found.append(value)
    return tuple(found)


def _value(choice: Choice, text: str) -> Any:
    if choice.name == "policy_kind":
        if text not in REGISTRY:
            raise ValueError(f"{text!r} is unknown; known: {', '.join(REGISTRY)}")
        return text
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
    if not -1e12 < number < 1e12:
        raise ValueError(f"{text!r} is out of range")
    if choice.whole and number != int(number):
        raise ValueError(f"{text} is no whole number")
    least = {"cells": 1, "training_cells": 0, "cell_size": 0.0625}.get(choice.name, CHANGEABLE.get(choice.name, 0))
    if number < least:
        raise ValueError(f"{text} is too small: at least {least:g}")
    return int(number) if choice.whole else number


def _number(name: str, raw: Any, problems: dict[str, str]) -> float | None:
    try:
        number = float(str(raw).strip())
    except ValueError:
        problems[name] = f"{str(raw)!r} is no number"
        return None
    if not -1e12 < number < 1e12:
        problems[name] = f"{str(raw)!r} is out of range"
        return None
    return number
