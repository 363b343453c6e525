"""The run settings that `decide` reads, and how a person's override changes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Settings:
    """Names and meanings as in `agents.config`; units in the suffixes."""

    cells: int
    concurrency_per_cell: int
    groups_per_batch: int
    executions_per_group: int
    steps: int
    burst_batches: int
    burst_lead: int
    max_staleness: int
    max_void_groups: int
    rho_min: float
    supply_hold_s: float
    min_rollout_cells: int
    j_max: int
    training_cells: int
    eval_every_steps: int
    eval_tasks: int

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Pick the scheduler's settings out of a complete run config. Raises KeyError for a missing one."""
        return cls(**{field.name: config[field.name] for field in fields(cls)})


class Sizes(Protocol):
    """Settings that must fit together, wherever they come from."""

    @property
    def cells(self) -> int: ...
    @property
    def concurrency_per_cell(self) -> int: ...
    @property
    def groups_per_batch(self) -> int: ...
    @property
    def executions_per_group(self) -> int: ...
    @property
    def burst_batches(self) -> int: ...
    @property
    def burst_lead(self) -> int: ...
    @property
    def max_staleness(self) -> int: ...
    @property
    def min_rollout_cells(self) -> int: ...
    @property
    def training_cells(self) -> int: ...


def misfit(sizes: Sizes) -> str:
    """Why these bursts and cells do not fit together; empty when they do."""
    ahead, most = sizes.burst_batches + sizes.burst_lead, sizes.max_staleness + 1
    if ahead > most:
        return f"burst_batches + burst_lead is {ahead}, at most max_staleness + 1 = {most} keeps the staleness bound"
    if sizes.training_cells >= sizes.cells:
        return f"training_cells {sizes.training_cells} leaves no cell of {sizes.cells} for rollout"
    if sizes.min_rollout_cells > sizes.cells:
        return f"min_rollout_cells {sizes.min_rollout_cells} exceeds cells {sizes.cells}"
    burst = sizes.burst_batches * sizes.groups_per_batch * sizes.executions_per_group
    room = sizes.cells * sizes.concurrency_per_cell
    if burst > room:
        return (
            f"a burst is burst_batches x groups_per_batch x executions_per_group = {burst} executions, but cells x "
            f"concurrency_per_cell hold {room}"
        )
    return ""


#: Settings that a person may change while the run goes on (docs/algorithms.md §9), with the least allowed value.
CHANGEABLE: Mapping[str, float] = {
    "rho_min": 0.0,
    "j_max": 1,
    "concurrency_per_cell": 1,
    "max_staleness": 0,
    "burst_batches": 1,
    "burst_lead": 0,
    "supply_hold_s": 0.0,
    "min_rollout_cells": 0,
}
_REAL = frozenset({"rho_min", "supply_hold_s"})


def changed(settings: Settings, name: str, value: Any) -> Settings:
    """`settings` with one changeable setting replaced; unchanged when name or value cannot be used."""
    if setting_problem(name, value):
        return settings
    changes: dict[str, Any] = {name: float(value) if name in _REAL else int(value)}
    return replace(settings, **changes)


def setting_problem(name: str, value: Any) -> str:
    """Why this setting cannot be overridden so; empty when it can."""
    if name not in CHANGEABLE:
        return f"{name!r} cannot be changed on a live run; changeable settings: {', '.join(sorted(CHANGEABLE))}"
    least = CHANGEABLE[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{name} needs a number of at least {least:g}, got {value!r}"
    if name not in _REAL and value != int(value):
        return f"{name} needs a whole number of at least {least:g}, got {value!r}"
    if not value >= least or (name == "rho_min" and not 0 < value <= 1):
        return f"{name} needs {'a number in (0, 1]' if name == 'rho_min' else f'at least {least:g}'}, got {value!r}"
    return ""
