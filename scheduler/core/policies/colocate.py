"""Colocate (docs/simulator.md): every cell rolls out; on a full batch all pause, all train, weights sync, all resume.

Its pauses break the capacity rule by definition; calls are held by the proxy meanwhile, no execution is aborted.
"""

from __future__ import annotations

from typing import ClassVar

from scheduler.core import evaluations, supply
from scheduler.core.moves import come_back, in_training, leave, stay
from scheduler.core.plan import Plan
from scheduler.core.policies.base import Policy, batch_not_full
from scheduler.core.snapshot import Burst


class Colocate(Policy):
    kind: ClassVar[str] = "colocate"

    def move_cells(self, plan: Plan) -> None:
        snapshot, burst = plan.snapshot, plan.source
        ready = 0 if burst is None else len(burst.ready)
        numbers = f"{ready} of {plan.settings.groups_per_batch} groups are ready"
        full = supply.batch_is_full(burst) and snapshot.version < plan.settings.steps
        if snapshot.batch is not None:
            for cell in plan.serving():
                leave(plan, cell, "batch_in_progress", f"batch {snapshot.batch.number} is in progress", rule=False)
        elif full and not evaluations.pending(plan):
            for cell in plan.serving():
                leave(plan, cell, "batch_ready", numbers, rule=False)
        else:
            for cell in plan.serving():
                stay(plan, cell, "batch_not_full", numbers)
            for cell in in_training(plan):
                if not (full and cell.is_core):
                    come_back(plan, cell, "batch_done", f"no batch in progress, {numbers}")

    def not_yet(self, plan: Plan, burst: Burst) -> str:
        return batch_not_full(plan, burst)
