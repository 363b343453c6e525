"""What distinguishes one scheduling policy from another: where cells go, and when a batch may open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from scheduler.core import supply
from scheduler.core.bursts import Proposal, strict_burst
from scheduler.core.plan import Plan
from scheduler.core.snapshot import Burst


class Policy(ABC):
    """Stateless. Everything else (bursts, launches, evaluations, filling a batch) is the same for all policies."""

    kind: ClassVar[str]
    #: Cells keep their side for the whole run; an evaluation may not pull one out of training.
    fixed_split: ClassVar[bool] = False

    #: A batch takes groups of all bursts, the oldest first; otherwise of one burst alone.
    mixes_bursts: ClassVar[bool] = False

    #: Looks at how long groups took, `work.group_s`. A simulator does not work it out for who does not.
    heeds_durations: ClassVar[bool] = True

    def next_burst(self, plan: Plan) -> Proposal:
        """How many groups to dispatch now."""
        return strict_burst(plan.snapshot, plan.settings)

    def heeds_ready(self, num_serving: int, concurrency: int, waterlevel: int) -> bool:
        """While a batch is in progress: may one more ready group move a cell? If unsure, yes.

        A simulator does not ask otherwise; that it loses nothing by it is tested against asking after every event.
        """
        return True

    def heeds_arrival(
        self, role: str, num_serving: int, concurrency: int, waterlevel: int, num_unclaimed: int, num_ready: int
    ) -> bool:
        """While the core trains a batch: may a cell that has arrived in `role` change a decision? If unsure, yes."""
        return True

    @abstractmethod
    def move_cells(self, plan: Plan) -> None:
        """Decide role changes into `plan`."""

    @abstractmethod
    def not_yet(self, plan: Plan, burst: Burst) -> str:
        """Why a batch may not open yet; empty when it may. `burst` has at least one ready group."""


def batch_not_full(plan: Plan, burst: Burst) -> str:
    """The barrier: training starts on a full batch, or on all that the burst can still yield."""
    if supply.batch_is_full(burst):
        return ""
    return f"{len(burst.ready)} of {burst.groups_per_batch} groups are ready, {burst.num_unfinished} unfinished"
