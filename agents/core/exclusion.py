"""What leaving unresolved executions out did to a group's statistics (docs/algorithms.md §5).

An unresolved execution has no reward and no vote. The comparison is with the naive reading that takes it for a failure:
reward 0 with a vote.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Exclusion:
    """Mean and sample standard deviation of a group's votes, as they are and with each unresolved one as a vote of 0.

    None where there is nothing to take the mean of.
    """

    num_votes: int
    num_unresolved: int
    mean: float | None
    std: float | None
    mean_as_zero: float | None
    std_as_zero: float | None

    @property
    def mean_shift(self) -> float:
        """How much higher (or lower) the mean is for leaving them out; 0 where either mean is missing."""
        return 0.0 if self.mean is None or self.mean_as_zero is None else self.mean - self.mean_as_zero

    @property
    def std_shift(self) -> float:
        return 0.0 if self.std is None or self.std_as_zero is None else self.std - self.std_as_zero


@dataclass(frozen=True)
class ExclusionTotals:
    """A run's groups together. Shifts are over the affected groups that have votes; 0 when there is none.

    `num_executions`: those that ended with a vote or unresolved. `num_lost`: affected groups without any vote.
    """

    num_executions: int
    num_unresolved: int
    num_groups: int
    num_affected: int
    num_lost: int
    mean_shift: float
    max_mean_shift: float
    std_shift: float

    @property
    def share(self) -> float:
        return self.num_unresolved / self.num_executions if self.num_executions else 0.0


def exclusion(num_votes: int, mean: float | None, std: float | None, num_unresolved: int) -> Exclusion:
    """From a group's statistics (agents.core.advantage.mean_and_std) alone: the votes themselves are not needed.

    Raises ValueError when there are votes without a mean and a standard deviation.
    """
    if not num_votes:
        zero = 0.0 if num_unresolved else None
        return Exclusion(0, num_unresolved, None, None, zero, zero)
    if mean is None or std is None:
        raise ValueError(f"{num_votes} votes without a mean and a standard deviation")
    count = num_votes + num_unresolved
    mean_as_zero = mean * num_votes / count
    # Sum of squares around the new mean: that of the votes around theirs, then both groups' distance to it.
    squares = (num_votes - 1) * std**2 + num_votes * num_unresolved / count * mean**2
    std_as_zero = math.sqrt(squares / (count - 1)) if count > 1 else 0.0
    return Exclusion(num_votes, num_unresolved, mean, std, mean_as_zero, std_as_zero)


def totals(groups: Iterable[Exclusion]) -> ExclusionTotals:
    found = list(groups)
    affected = [group for group in found if group.num_unresolved]
    voting = [group for group in affected if group.num_votes]
    count = max(len(voting), 1)
    return ExclusionTotals(
        num_executions=sum(group.num_votes + group.num_unresolved for group in found),
        num_unresolved=sum(group.num_unresolved for group in found),
        num_groups=len(found),
        num_affected=len(affected),
        num_lost=len(affected) - len(voting),
        mean_shift=sum(group.mean_shift for group in voting) / count,
        max_mean_shift=max((group.mean_shift for group in voting), key=abs, default=0.0),
        std_shift=sum(group.std_shift for group in voting) / count,
    )
