"""Text as it may be shown: what models, tasks and people wrote can hold characters that a terminal obeys."""

from __future__ import annotations

import re
from typing import Any

#: C0 and C1 with DEL, and characters that hide or reorder text.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def clean(value: Any) -> str:
    """On one line, and without control characters; None is a dash."""
    return "–" if value is None else CONTROL.sub("", re.sub(r"[\t\r\n]+", " ", str(value)))


def figure(value: float | None, error: float | None = None, digits: int = 3) -> str:
    if value is None:
        return "–"
    return f"{value:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def duration(seconds: float | None) -> str:
    """The two largest units, e.g. `2h 05m`."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours >= 24:
        return f"{hours // 24}d {hours % 24:02}h"
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {whole % 60:02}s" if minutes else f"{whole}s"


def spans(numbers: list[int]) -> str:
    """`0–3, 7`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in found)
