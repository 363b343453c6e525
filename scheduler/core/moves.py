"""Moving a cell between roles: the checks every policy shares, and the orders of people (docs/algorithms.md §9)."""

from __future__ import annotations

from scheduler.core.decisions import Kind, LeaveRollout, ReturnToRollout
from scheduler.core.plan import Plan, called
from scheduler.core.safety import capacity_left, leaves_enough
from scheduler.core.snapshot import LOST, ROLLOUT, STOPPED, TRAINING, Cell


def stay(plan: Plan, cell: Cell, code: str, why: str, **params: float) -> None:
    """Write down that a cell confirmed in training or rollout was considered for the other role and keeps its own."""
    kind = Kind.RETURN_TO_ROLLOUT if cell.role == TRAINING else Kind.LEAVE_ROLLOUT
    plan.refuse(kind, code, f"{called(cell)} stays in {cell.role}: {why}", cell, **params)


def leave(plan: Plan, cell: Cell, code: str, why: str, *, rule: bool = True, unsafe: bool = False) -> bool:
    """Send a serving cell to training. With `rule`, only if those that stay can hold everything that is owed."""
    if problem := plan.orders.forbids(cell, TRAINING):
        stay(plan, cell, "override", problem)
        return False
    if rule and not unsafe and (refusal := stays_because(plan)):
        stay(plan, cell, *refusal)
        return False
    num_staying = len(plan.serving()) - 1
    room = f"{num_staying} x {plan.settings.concurrency_per_cell}"
    numbers = f"{room} >= W {plan.waterlevel}" if rule and not unsafe else f"W {plan.waterlevel}, {room} stay"
    plan.switch(cell, TRAINING)
    reason = f"{called(cell)} leaves rollout: {why}; {numbers}"
    plan.accept(Kind.LEAVE_ROLLOUT, code, reason, cell, LeaveRollout(unsafe))
    return True


def stays_because(plan: Plan) -> tuple[str, str] | None:
    """Code and numbers of the rule that keeps one more cell in rollout; None when one may go."""
    serving, concurrency, owed = len(plan.serving()), plan.settings.concurrency_per_cell, plan.waterlevel
    if not capacity_left(serving, concurrency, owed):
        return "capacity", f"{max(0, serving - 1)} x {concurrency} < W {owed}"
    if not leaves_enough(serving, plan.settings, owed):
        return (
            "min_rollout_cells",
            f"{serving - 1} rollout cells would stay, {plan.settings.min_rollout_cells} must while W is {owed}",
        )
    return None


def come_back(plan: Plan, cell: Cell, code: str, why: str) -> bool:
    """Send a cell in training back to rollout, unless a person forbids it."""
    if problem := plan.orders.forbids(cell, ROLLOUT):
        stay(plan, cell, "override", problem)
        return False
    plan.switch(cell, ROLLOUT)
    plan.accept(Kind.RETURN_TO_ROLLOUT, code, f"{called(cell)} returns to rollout: {why}", cell, ReturnToRollout())
    return True


def in_training(plan: Plan) -> list[Cell]:
    """Cells that are confirmed in training and were not told to leave."""
    return [c for c in plan.snapshot.cells if c.role == TRAINING and plan.desired(c) == TRAINING]


def obey_orders(plan: Plan) -> None:
    """Drains and pins first: what people asked for, as far as the capacity rule or their `unsafe` allows."""
    nobody_asked = not plan.orders.in_force
    for cell in plan.snapshot.cells:
        if nobody_asked and cell.desired_role != STOPPED:
            continue
        if plan.orders.drain(cell) is not None:
            _drain(plan, cell)
        elif cell.desired_role == STOPPED:
            if cell.role not in (STOPPED, LOST):
                continue  # still on its way down
            plan.switch(cell, ROLLOUT)
            plan.accept(Kind.START_CELL, "drain_ended", f"{called(cell)} starts again: no order drains it", cell)
        elif (pin := plan.orders.pin(cell)) is not None:
            if pin.role == TRAINING and cell in plan.serving():
                leave(plan, cell, "pinned", f"override {pin.id} pins it to training", unsafe=pin.unsafe)
            elif pin.role == ROLLOUT and cell in in_training(plan):
                come_back(plan, cell, "pinned", f"override {pin.id} pins it to rollout")


def _drain(plan: Plan, cell: Cell) -> None:
    order = plan.orders.drain(cell)
    if order is None or plan.desired(cell) == STOPPED or cell.role not in (ROLLOUT, TRAINING):
        return
    if not order.unsafe:
        serving, concurrency = plan.serving(), plan.settings.concurrency_per_cell
        if cell.is_core and plan.snapshot.batch is not None:
            plan.refuse(
                Kind.DRAIN_CELL,
                "batch",
                f"the core is not drained yet: batch {plan.snapshot.batch.number} needs it",
                cell,
            )
            return
        if cell in serving and not capacity_left(len(serving), concurrency, plan.waterlevel):
            plan.refuse(
                Kind.DRAIN_CELL,
                "capacity",
                f"{called(cell)} is not drained yet: {len(serving) - 1} x {concurrency} < W {plan.waterlevel}",
                cell,
            )
            return
    plan.switch(cell, STOPPED)
    plan.accept(Kind.DRAIN_CELL, "override", f"{called(cell)} is drained: override {order.id}", cell)
