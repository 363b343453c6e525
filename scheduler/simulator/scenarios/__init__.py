"""Scenarios of the simulator: a cluster, its settings and its workload, by name or from a file.

    [settings]   names of `agents.config`: policy-independent run settings, cells included
    [workload]   names of `scheduler.simulator.core.Workload`
    [published]  what the published descriptions say of this workload, for comparison only
    [fit]        how well the fitted parameters match it, written by the fit script
    [recorded]   seconds: a list per group of its executions' seconds, replayed instead of drawn

The presets lie beside this file; `manage.py simulate --preset FILE.toml` takes any other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from scheduler.core.policies import REGISTRY
from scheduler.core.settings import Settings, misfit
from scheduler.simulator.core import Workload
from scheduler.simulator.core.workload import MAX_S

PRESET_DIR = Path(__file__).parent
#: Cluster defaults of the settings the simulator reads; evaluations are off unless asked for.
DEFAULTS: Mapping[str, Any] = {
    "cells": 8,
    "concurrency_per_cell": 192,
    "groups_per_batch": 18,
    "executions_per_group": 16,
    "steps": 48,
    "burst_batches": 4,
    "burst_lead": 0,
    "max_staleness": 3,
    "max_void_groups": 8,
    "rho_min": 0.5,
    "supply_hold_s": 20.0,
    "min_rollout_cells": 1,
    "j_max": 5,
    "training_cells": 0,
    "eval_every_steps": 0,
    "eval_tasks": 0,
}

#: A whole number beyond it is no setting.
MAX_WHOLE = 10**12


class BadScenario(ValueError):
    """A scenario that cannot be simulated. The message names the setting, the value and what is allowed."""


@dataclass(frozen=True)
class Scenario:
    """What is simulated, whatever the policy. `recorded`: seconds of executions per group, replayed."""

    name: str
    settings: Settings
    workload: Workload
    description: str = ""
    published: Mapping[str, Any] = field(default_factory=dict)
    fit: Mapping[str, Any] = field(default_factory=dict)
    recorded: tuple[tuple[float, ...], ...] = ()

    def changed(self, changes: Mapping[str, Any]) -> Scenario:
        """With run settings or workload parameters replaced. Raises BadScenario."""
        return _checked(
            replace(
                self,
                settings=replace(self.settings, **_typed(changes, Settings)),
                workload=_workload(self.workload, _typed(changes, Workload)),
            ),
            changes,
        )


def check_name(name: str) -> None:
    """Raises BadScenario for what is neither a run setting nor a parameter of the workload."""
    known = _names(Settings) | Workload.names()
    if name not in known:
        raise BadScenario(f"{name!r} is no setting of the simulator; known: {', '.join(sorted(known))}")


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESET_DIR.glob("*.toml"))


def load(name: str) -> Scenario:
    """The preset of that name, or the scenario in that .toml file. Raises BadScenario."""
    path = Path(name) if name.endswith(".toml") else PRESET_DIR / f"{name}.toml"
    if not path.is_file():
        if name and Path(name).is_dir():
            raise BadScenario(f"preset {name!r} is a directory; a .toml file is needed")
        where = "no such file" if name.endswith(".toml") else f"known presets: {', '.join(preset_names())}"
        raise BadScenario(f"preset {name!r} is unknown; {where}")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadScenario(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        raise BadScenario(
            f"{path} is not UTF-8, as a .toml file must be: {error.reason} at byte {error.start}"
        ) from error
    except OSError as error:
        raise BadScenario(f"{path}: {error.strerror or error}") from error
    return parse(data, path.stem)


def parse(data: Mapping[str, Any], name: str) -> Scenario:
    """A scenario from its tables. Raises BadScenario."""
    known = {"description", "settings", "workload", "published", "fit", "recorded"}
    if extra := sorted(set(data) - known):
        raise BadScenario(f"{name}: unknown table {extra[0]!r}; known: {', '.join(sorted(known))}")
    settings, workload = dict(data.get("settings", {})), dict(data.get("workload", {}))
    base = Scenario(
        name=name,
        settings=Settings(**DEFAULTS),
        workload=Workload(),
        description=data.get("description", ""),
        published=data.get("published", {}),
        fit=data.get("fit", {}),
        recorded=_recorded(data.get("recorded", {}), name),
    )
    if wrong := sorted(set(settings) - _names(Settings)):
        raise BadScenario(f"{name}: [settings] has no {wrong[0]!r}; known: {', '.join(sorted(_names(Settings)))}")
    if wrong := sorted(set(workload) - Workload.names()):
        raise BadScenario(f"{name}: [workload] has no {wrong[0]!r}; known: {', '.join(sorted(Workload.names()))}")
    return base.changed({**settings, **workload})


def _recorded(table: Mapping[str, Any], name: str) -> tuple[tuple[float, ...], ...]:
    if not table:
        return ()
    groups: Any = table.get("seconds")
    if groups == []:
        raise BadScenario(f"{name}: [recorded] seconds is empty; leave the table out to draw durations")
    good = isinstance(groups, list) and all(
        isinstance(group, list) and group and all(_is_duration(s) for s in group) for group in groups
    )
    if not good or set(table) - {"seconds"}:
        raise BadScenario(
            f"{name}: [recorded] holds seconds = [[…], […]]: a list of positive seconds per group, "
            f"each at most {MAX_S:,.0f}"
        )
    return tuple(tuple(float(s) for s in group) for group in groups)


def _is_duration(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= MAX_S


def _names(kind: type) -> set[str]:
    return {item.name for item in fields(kind)}


def _typed(changes: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The changes that are fields of `kind`, as numbers of the field's type. Raises BadScenario."""
    types = {item.name: item.type for item in fields(kind)}
    found: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in types:
            continue
        if isinstance(value, str):
            raise BadScenario(f"{name} needs a number, got {value!r}, which is a string: write it without quotes")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadScenario(f"{name} needs a number, got {value!r}")
        if isinstance(value, float) and not isfinite(value):
            raise BadScenario(f"{name} needs a finite number, got {value!r}")
        if isinstance(value, int) and abs(value) > MAX_WHOLE:
            raise BadScenario(f"{name} needs a number of at most {MAX_WHOLE:,}, got one of {len(str(value))} digits")
        if types[name] == "int" and value != int(value):
            raise BadScenario(f"{name} needs a whole number, got {value!r}")
        found[name] = int(value) if types[name] == "int" else float(value)
    return found


def _workload(workload: Workload, changes: dict[str, Any]) -> Workload:
    try:
        return workload.with_changes(changes)
    except ValueError as error:
        raise BadScenario(str(error)) from error


def _checked(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    for name in sorted(changes):
        check_name(name)
    s = scenario.settings
    for name, least in _LEAST.items():
        if getattr(s, name) < least:
            raise BadScenario(f"{name} is {getattr(s, name)}, at least {least} is needed")
    for name, most in _MOST.items():
        if getattr(s, name) > most:
            raise BadScenario(f"{name} is {getattr(s, name):,}, at most {most:,} is allowed")
    if not 0 < s.rho_min <= 1:
        raise BadScenario(f"rho_min is {s.rho_min}, it must be in (0, 1]")
    if problem := misfit(s):
        raise BadScenario(problem)
    if scenario.workload.min_votes > s.executions_per_group:
        raise BadScenario(
            f"min_votes {scenario.workload.min_votes} exceeds executions_per_group {s.executions_per_group}: no group "
            "would ever be usable"
        )
    return scenario


_LEAST = {
    **dict.fromkeys(("cells", "concurrency_per_cell", "groups_per_batch", "executions_per_group", "steps"), 1),
    **dict.fromkeys(("burst_batches", "max_void_groups"), 1),
    **dict.fromkeys(("burst_lead", "max_staleness", "supply_hold_s", "min_rollout_cells", "training_cells"), 0),
    **dict.fromkeys(("eval_every_steps", "eval_tasks"), 0),
}

_MOST = {
    "cells": 10_000,
    "supply_hold_s": MAX_S,
    **dict.fromkeys(("concurrency_per_cell", "groups_per_batch", "executions_per_group", "steps"), 1_000_000),
    **dict.fromkeys(("burst_batches", "burst_lead", "max_staleness", "max_void_groups"), 1_000_000),
    **dict.fromkeys(("j_max", "eval_every_steps", "eval_tasks"), 1_000_000),
}

POLICIES = tuple(REGISTRY)


def check_policy(name: str) -> None:
    """Raises BadScenario for the name of no policy."""
    if name not in POLICIES:
        raise BadScenario(f"policy {name!r} is unknown; known: {', '.join(POLICIES)}")
