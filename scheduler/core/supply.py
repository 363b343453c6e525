"""Is there enough to train? Supply check and worth of joining (docs/algorithms.md §9)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from scheduler.core.settings import Settings
from scheduler.core.snapshot import Burst, Snapshot

#: Stand-in for a switch that has not been measured yet, where waiting must end some time.
UNMEASURED_SWITCH_S = 5.0


class Supply(NamedTuple):
    """Whether there is enough to train. `since_s`: since when there is, without a break; None while there is not."""

    num_ready: int
    num_needed: int
    num_unfinished: int
    since_s: float | None

    @property
    def there(self) -> bool:
        """There is enough to train."""
        return self.since_s is not None

    @property
    def told(self) -> str:
        """The numbers, as reasons have them."""
        return f"{self.num_ready} of {self.num_needed} groups are ready"

    def held_s(self, now_s: float) -> float:
        return 0.0 if self.since_s is None else max(0.0, now_s - self.since_s)


def supply(burst: Burst | None, settings: Settings) -> Supply:
    """Usable ready groups not yet admitted >= ceil(rho_min * B), or all that the burst can still yield.

    Groups only ever wait longer, so the instant at which the condition became true is read off their times.
    """
    if burst is None:
        return Supply(num_ready=0, num_needed=1, num_unfinished=0, since_s=None)
    needed = max(1, ceil(settings.rho_min * burst.groups_per_batch - 1e-9))
    times = sorted([group.ready_at_s for group in burst.ready])
    since: float | None = None
    if len(times) >= needed:
        since = times[needed - 1]
    elif times and burst.num_unfinished == 0:
        since = max(burst.settled_at_s, times[-1])
    return Supply(len(times), needed, burst.num_unfinished, since)


#: Quantiles of group durations that a snapshot holds, and of how many of the newest groups.
NUM_QUANTILES, NUM_GROUPS = 33, 288
#: Intervals between optimizer steps of which the shortest is what a step takes when it waits for nothing.
NUM_INTERVALS = 8


def quantiles(seconds: Sequence[float]) -> tuple[float, ...]:
    """Evenly spaced quantiles of durations, rounded to the millisecond; nothing of nothing."""
    if not seconds:
        return ()
    ordered, last = sorted(seconds), len(seconds) - 1
    return tuple(round(ordered[round(place * last / (NUM_QUANTILES - 1))], 3) for place in range(NUM_QUANTILES))


def batch_is_full(burst: Burst | None) -> bool:
    """A whole batch is ready, or all that the burst can still yield: what barrier policies wait for."""
    if burst is None or not burst.ready:
        return False
    return len(burst.ready) >= burst.groups_per_batch or burst.num_unfinished == 0


def num_micro_steps_to_do(snapshot: Snapshot, burst: Burst | None) -> float:
    """Unclaimed micro-steps, plus those that ready groups will give. Zero only when there is nothing to do."""
    unclaimed = snapshot.batch.num_unclaimed if snapshot.batch is not None else 0
    ready = len(burst.ready) if burst is not None else 0
    return unclaimed + ready * max(snapshot.work.micro_steps_per_group or 1.0, 1e-3)


def work_to_do_s(snapshot: Snapshot, burst: Burst | None, num_trainers: int) -> float | None:
    """Seconds that so many cells in training need for what is there; None when micro-steps were never timed."""
    if snapshot.work.micro_step_s is None:
        return None
    return num_micro_steps_to_do(snapshot, burst) * snapshot.work.micro_step_s / max(1, num_trainers)
