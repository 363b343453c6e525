"""Dispatched, launched, finished, and the waterlevel (docs/algorithms.md §9). Invariant: F <= L <= D."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counters:
    """Training executions of one run. Evaluation executions are never counted here."""

    dispatched: int
    launched: int
    finished: int
    queued: int = 0  # told to start, lease not yet taken for the first time: not in `launched`

    @property
    def waterlevel(self) -> int:
        """W = D - F: executions still owed a result."""
        return self.dispatched - self.finished

    @property
    def occupied(self) -> int:
        """Places in rollout that are taken: L - F, and those on their way."""
        return self.launched - self.finished + self.queued

    @property
    def waiting(self) -> int:
        """Owed executions that nobody has told to start yet."""
        return self.dispatched - self.launched - self.queued
