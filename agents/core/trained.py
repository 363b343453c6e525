"""A trajectory as a trainer takes it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from agents.core.codec import Bools, NodeTokens


@dataclass(frozen=True)
class TrainedTrajectory:
    """A drawn path with its target mask. `weight` is 1/T(e), fixed at admission (docs/algorithms.md §8); `advantage` is
    that of its execution.
    """

    tokens: NodeTokens
    targets: Bools
    weight: float
    advantage: float


def target_mask(targets: Iterable[Sequence[int]], num_tokens: int) -> Bools:
    """True at the trained positions of a path of so many tokens; `targets` are [start, end) runs."""
    mask = np.zeros(num_tokens, np.bool_)
    for start, end in targets:
        mask[start:end] = True
    return mask
