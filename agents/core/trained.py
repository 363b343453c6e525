"""A trajectory as a trainer takes it."""

from dataclasses import dataclass

from agents.core.codec import Bools, NodeTokens


@dataclass(frozen=True)
class TrainedTrajectory:
    """A drawn path with its target mask. `weight` is 1/T(e), fixed at admission.; `advantage` is that

    docs/algorithms.md §8.
    of its execution."""

    tokens: NodeTokens
    targets: Bools
    weight: float
    advantage: float
