"""The rules no policy may break: capacity, least rollout, staleness (docs/algorithms.md §9)."""

from __future__ import annotations

from scheduler.core.settings import Settings


def capacity_left(num_rollout: int, concurrency: int, waterlevel: int) -> bool:
    """(|R| - 1) * c >= W: the cells that stay can hold everything that is owed."""
    return (num_rollout - 1) * concurrency >= waterlevel


def rollout_short(num_rollout: int, concurrency: int, waterlevel: int) -> int:
    """How many more cells rollout needs before W <= |R| * c holds; 0 when it holds."""
    return max(0, -(-waterlevel // concurrency) - num_rollout)


def leaves_enough(num_rollout: int, settings: Settings, waterlevel: int) -> bool:
    """|R| - 1 >= min_rollout_cells, or nothing is owed."""
    return waterlevel == 0 or num_rollout - 1 >= settings.min_rollout_cells


def staleness(burst_version: int, version: int) -> int:
    """Most versions a token of a burst can be old when a batch at `version` trains it."""
    return version - burst_version
