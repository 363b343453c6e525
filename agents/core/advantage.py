"""Group-relative advantages: one vote per execution, however many trajectories it yields (algorithms.md §6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

AdvantageKind = Literal["group_std", "mean_only", "leave_one_out"]

#: Added to the standard deviation, as published.
STD_EPSILON = 1e-6


def advantages(rewards: Mapping[int, float], kind: AdvantageKind = "group_std") -> dict[int, float]:
    """Advantage of each voting execution, by its id. All 0 with fewer than two votes or equal rewards.

    `group_std`: (r - mean) / (sample standard deviation + 1e-6); `mean_only`: r - mean;
    `leave_one_out`: r - mean of the others.
    """
    if len(rewards) < 2 or min(rewards.values()) == max(rewards.values()):
        return dict.fromkeys(rewards, 0.0)
    mean, std = mean_and_std(list(rewards.values()))
    if kind == "group_std":
        scale = 1.0 / (std + STD_EPSILON)
    elif kind == "mean_only":
        scale = 1.0
    else:
        scale = len(rewards) / (len(rewards) - 1)  # r - mean of the others = (r - mean) · n / (n - 1)
    return {execution: (reward - mean) * scale for execution, reward in rewards.items()}


def mean_and_std(values: list[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for one value). Raises ValueError for none."""
    if not values:
        raise ValueError("no values")
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
