"""Group-relative advantages: one vote per execution, however many trajectories it yields (docs/algorithms.md §6)."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from typing import Literal

AdvantageKind = Literal["group_std", "mean_only", "leave_one_out"]

#: Added to the standard deviation, as published.
STD_EPSILON = 1e-6
#: Below it, sums of squares do not overflow.
_SQUARES_FIT = 1e100


def advantages(rewards: Mapping[int, float], kind: AdvantageKind = "group_std") -> dict[int, float]:
    """Advantage of each voting execution, by its id. All 0 with fewer than two votes or equal rewards.

    `group_std`: (r - mean) / (sample standard deviation + 1e-6); `mean_only`: r - mean;
    `leave_one_out`: r - mean of the others.
    """
    if len(rewards) < 2 or min(rewards.values()) == max(rewards.values()):
        return dict.fromkeys(rewards, 0.0)
    unit = _unit(rewards.values())
    scaled = {execution: reward / unit for execution, reward in rewards.items()}
    mean, std = _moments(list(scaled.values()))
    if kind == "group_std":
        scale = 1.0 / (std + STD_EPSILON / unit)
    elif kind == "mean_only":
        scale = unit
    else:
        scale = unit * (len(rewards) / (len(rewards) - 1))  # r - mean of the others = (r - mean) · n / (n - 1)
    return {execution: _held((reward - mean) * scale) for execution, reward in scaled.items()}


def mean_and_std(values: list[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for one value). Raises ValueError for none."""
    if not values:
        raise ValueError("no values")
    unit = _unit(values)
    mean, std = _moments([value / unit for value in values])
    return _held(mean * unit), _held(std * unit)


def _moments(values: list[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _unit(values: Iterable[float]) -> float:
    """What values are divided by so that their squares do not overflow: 1 for all that occur."""
    largest = max(map(abs, values))
    return 1.0 if largest < _SQUARES_FIT else largest


def _held(value: float) -> float:
    """The nearest finite number."""
    return max(-sys.float_info.max, min(value, sys.float_info.max))
