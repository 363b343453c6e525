"""Bounds of numbers and text that come from a task, a verifier or a harness, which may write anything."""

from __future__ import annotations

import math
import re

#: Largest absolute value of a reward: means, deviations and 32-bit floats of the trainer hold it with room to spare.
MAX_REWARD = 1e9
#: Largest count that the database's columns hold.
MAX_COUNT = 2**31 - 1

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BLANK = " \t\r\n\f\v"


def decimal(text: str) -> float | None:
    """A decimal number in ASCII with blanks around it; None for any other text. One too large comes out infinite."""
    number = text.strip(_BLANK)
    return float(number) if _DECIMAL.fullmatch(number) else None


def is_reward(value: float | None) -> bool:
    """Whether a number can be a reward: finite and within MAX_REWARD."""
    return value is not None and math.isfinite(value) and abs(value) <= MAX_REWARD


def count(value: object) -> int:
    """What something outside calls a count, as one: 0 for what is none, at most MAX_COUNT."""
    return max(0, min(value, MAX_COUNT)) if isinstance(value, int) and not isinstance(value, bool) else 0


def storable(text: str) -> str:
    """`text` as a database can keep it: output from outside is hostile, and a NUL in it must not cost the result."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
