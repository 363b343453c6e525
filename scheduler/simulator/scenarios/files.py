"""A scenario as the text of its .toml file: what `scenarios.load` reads again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scheduler.core.jsonform import to_json
from scheduler.simulator.scenarios import Scenario


def to_toml(scenario: Scenario) -> str:
    """Every setting and parameter, so that the file keeps its meaning, and the recorded durations if there are any."""
    tables = {
        "settings": to_json(scenario.settings),
        "workload": to_json(scenario.workload),
        "published": scenario.published,
        "fit": scenario.fit,
    }
    parts = [f"description = {_value(scenario.description)}\n"]
    parts += [f"[{name}]\n{_lines(table)}" for name, table in tables.items() if table]
    if scenario.recorded:
        rows = ",\n".join("  [" + ", ".join(f"{seconds:.3f}" for seconds in group) + "]" for group in scenario.recorded)
        parts.append(f"[recorded]\nseconds = [\n{rows},\n]\n")
    return "\n".join(parts)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in table.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)
