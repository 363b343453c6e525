"""The form of the override page: what a person orders, checked while it is typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.http import QueryDict
from django.utils import timezone

from scheduler import config as run_config
from scheduler.core.settings import CHANGEABLE, setting_problem
from scheduler.models import Cell, Override

Kind = Override.Kind
#: A drained cell starts again when its order ends: so long it stays away in a restart.
RESTART_S = 120
EXPIRIES = (
    (900, "15 minutes"), (3600, "1 hour"), (6 * 3600, "6 hours"), (86_400, "1 day"), (7 * 86_400, "7 days"),
)  # fmt: skip
USUAL_EXPIRY_S = 3600


@dataclass(frozen=True)
class Choice:
    """One thing that can be ordered. `needs` names the fields that belong to it."""

    name: str
    title: str
    help: str
    kind: str
    value: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def can_be_unsafe(self) -> bool:
        return "unsafe" in self.needs


CHOICES = (
    Choice(
        "rollout", "Pin a cell to rollout", "It returns from training as soon as it has handed in, and stays.",
        Kind.PIN, {"role": "rollout"}, ("cell",),
    ),
    Choice(
        "training", "Pin a cell to training", "It leaves rollout when the others can hold what is owed, and stays.",
        Kind.PIN, {"role": "training"}, ("cell", "unsafe"),
    ),
    Choice("stay", "Forbid switching", "The cell keeps the role that it has.", Kind.FORBID_SWITCH, {}, ("cell", "all")),
    Choice(
        "drain", "Drain a cell", "It hands in, stops, and starts again when the order ends. A core ends its batch.",
        Kind.DRAIN, {}, ("cell", "unsafe"),
    ),
    Choice(
        "restart", "Restart a cell", f"Drained for {RESTART_S // 60} minutes, then it starts with fresh processes.",
        Kind.DRAIN, {}, ("cell", "unsafe"),
    ),
    Choice("hold", "Hold dispatch", "No new burst. What is owed goes on, and so does training.", Kind.HOLD_DISPATCH),
    Choice("setting", "Change a setting", "From the next decision on.", Kind.SETTING, {}, ("setting",)),
)  # fmt: skip
BY_NAME = {choice.name: choice for choice in CHOICES}


@dataclass(frozen=True)
class LiveSetting:
    """A setting that can be changed while the run goes on."""

    name: str
    now: str
    usual: str
    help: str
    allowed: str


def live_settings(config: Mapping[str, Any], overrides: list[Override]) -> list[LiveSetting]:
    """Their values now, overrides in force included (the newest counts), and those of the run's config."""
    newest = {row.value.get("name"): row.value.get("value") for row in reversed(overrides) if row.kind == Kind.SETTING}
    fields = run_config.RunConfig.model_fields
    return [
        LiveSetting(
            name, as_text(newest.get(name, config.get(name))), as_text(config.get(name)),
            fields[name].description or "", run_config.allowed(name),
        )
        for name in CHANGEABLE
    ]  # fmt: skip


def as_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else "–"


@dataclass(frozen=True)
class Form:
    """What was typed, and what is wrong with it by field."""

    choice: Choice
    cell: str = ""
    setting: str = ""
    number: str = ""
    expires_in_s: str = str(USUAL_EXPIRY_S)
    reason: str = ""
    unsafe: bool = False
    sure: bool = False
    seen: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def cell_index(self) -> int | None:
        return int(self.cell) if "cell" in self.choice.needs and self.cell else None

    @property
    def value(self) -> dict[str, Any]:
        if self.choice.kind == Kind.SETTING:
            return {"name": self.setting, "value": _number(self.number)}
        return dict(self.choice.value)

    @property
    def expires_at(self) -> datetime:
        return timezone.now() + timedelta(seconds=int(self.expires_in_s))

    def order(self) -> dict[str, Any]:
        """What the actions of overrides take, but for reason and expiry."""
        return {
            "kind": self.choice.kind, "cell_index": self.cell_index, "value": self.value,
            "unsafe": self.unsafe and self.choice.can_be_unsafe,
        }  # fmt: skip


def form_of(data: QueryDict, cells: list[Cell]) -> Form:
    """The form as it was sent, by GET to begin with something filled in, or by POST. Checked but for the reason."""
    choice = BY_NAME.get(data.get("what", ""), CHOICES[0])
    expires = data.get("expires_in_s", "")
    if choice.name == "restart":
        expires = str(RESTART_S)
    elif expires not in {str(seconds) for seconds, _ in EXPIRIES}:
        expires = str(USUAL_EXPIRY_S)
    form = Form(
        choice=choice,
        cell=data.get("cell", ""),
        setting=data.get("setting", next(iter(CHANGEABLE))),
        number=data.get("number", ""),
        expires_in_s=expires,
        reason=data.get("reason", ""),
        unsafe=bool(data.get("unsafe")),
        sure=bool(data.get("sure")),
        seen=data.get("seen", ""),
    )
    return Form(**{**vars(form), "problems": _problems(form, cells)})


def _problems(form: Form, cells: list[Cell]) -> dict[str, str]:
    found: dict[str, str] = {}
    known = {str(cell.index) for cell in cells}
    if "cell" in form.choice.needs and form.cell not in known and not ("all" in form.choice.needs and not form.cell):
        found["cell"] = "Choose a cell."
    if form.choice.kind == Kind.SETTING and (problem := setting_problem(form.setting, _number(form.number))):
        found["number"] = "Give the new value." if not form.number.strip() else f"{problem[:1].upper()}{problem[1:]}."
    if form.unsafe and form.choice.can_be_unsafe and not form.sure:
        found["sure"] = "Say that you mean it."
    return found


def _number(raw: str) -> float | str:
    try:
        value = float(raw)
    except ValueError:
        return raw
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
