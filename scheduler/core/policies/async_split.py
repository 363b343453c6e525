"""The asynchronous baselines (docs/simulator.md): a fixed split of the cells, both sides always on.

`async-barrier` starts training on a full batch; `async-streamed` streams micro-steps as groups become ready;
`async-best` is the same with a split that somebody has chosen: the simulator tries them all and takes the fastest.
"""

from __future__ import annotations

from typing import ClassVar

from scheduler.core.moves import come_back, in_training, leave
from scheduler.core.plan import Plan
from scheduler.core.policies.base import Policy, batch_not_full
from scheduler.core.snapshot import Burst, Cell


def training_side(plan: Plan) -> list[Cell]:
    """The core and the first satellites: `training_cells` of them, half of the cells when that is 0."""
    wanted = plan.settings.training_cells or plan.settings.cells // 2
    cells = sorted(plan.snapshot.cells, key=lambda c: (not c.is_core, c.index))
    return cells[: max(1, min(wanted, len(cells) - 1))]


class AsyncSplit(Policy):
    fixed_split: ClassVar[bool] = True

    def move_cells(self, plan: Plan) -> None:
        trainers = training_side(plan)
        split = f"the split is {len(trainers)} training, {len(plan.snapshot.cells) - len(trainers)} rollout"
        for cell in plan.serving():
            if cell in trainers and plan.orders.pin(cell) is None:
                leave(plan, cell, "fixed_split", split, rule=False)
        for cell in in_training(plan):
            if cell not in trainers and plan.orders.pin(cell) is None:
                come_back(plan, cell, "fixed_split", split)


class AsyncBarrier(AsyncSplit):
    kind: ClassVar[str] = "async-barrier"

    def not_yet(self, plan: Plan, burst: Burst) -> str:
        return batch_not_full(plan, burst)


class AsyncStreamed(AsyncSplit):
    kind: ClassVar[str] = "async-streamed"

    def not_yet(self, plan: Plan, burst: Burst) -> str:
        return ""


class AsyncBest(AsyncStreamed):
    kind: ClassVar[str] = "async-best"
