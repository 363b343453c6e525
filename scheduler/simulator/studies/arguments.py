"""Command-line texts as values: seeds, settings, sweeps. What cannot be read is named, with what is expected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from scheduler.simulator.scenarios import BadScenario, check_name

MAX_SEEDS = 10_000


def seeds(text: str) -> tuple[int, ...]:
    """`3` means 1 to 3, `21-40` that range, `1,5,9` those. Raises BadScenario."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1 and parts[0].isdecimal():
        return _range(1, int(parts[0]), text)
    found: list[int] = []
    for part in parts:
        if match := re.fullmatch(r"(\d+)-(\d+)", part):
            found += _range(int(match[1]), int(match[2]), text)
        elif part.isdecimal():
            found.append(int(part))
        else:
            raise BadScenario(f"--seeds takes a number n (1 to n), a range a-b, or a list a,b,c, not {text!r}")
    return tuple(dict.fromkeys(found))


def _range(first: int, last: int, text: str) -> tuple[int, ...]:
    if last < first:
        raise BadScenario(f"--seeds {text} names no seed")
    if last - first >= MAX_SEEDS:
        raise BadScenario(f"--seeds {text} names more than {MAX_SEEDS} seeds")
    return tuple(range(first, last + 1))


def settings(texts: Sequence[str]) -> dict[str, Any]:
    """`key=value` each. Raises BadScenario, also for a key that is no setting."""
    found: dict[str, Any] = {}
    for text in texts:
        name, value = _assignment("--set", text)
        found[name] = number(name, value)
    return found


def sweeps(texts: Sequence[str]) -> dict[str, list[Any]]:
    """`key=a,b,c` each. Raises BadScenario, also for a key that is no setting."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, values = _assignment("--sweep", text)
        if name in found:
            raise BadScenario(f"--sweep {name} is given twice; one list holds all values")
        found[name] = list(dict.fromkeys(number(name, value) for value in values.split(",")))
    return found


def number(name: str, text: str) -> int | float:
    """Raises BadScenario."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise BadScenario(f"{name} needs a number, got {text!r}") from None


def _assignment(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise BadScenario(f"{option} takes {'key=a,b,c' if option == '--sweep' else 'key=value'}, not {text!r}")
    check_name(name.strip())
    return name.strip(), value.strip()
