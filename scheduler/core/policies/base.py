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

    def next_burst(self, plan: Plan) -> Proposal:
        """How many groups to dispatch now."""
        return strict_burst(plan.snapshot, plan.settings)

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
