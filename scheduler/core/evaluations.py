"""When an evaluation starts, which cell it reserves, and what waits for it (docs/algorithms.md §9).

Version 0, every `eval_every_steps`-th and the last version are evaluated. No batch opens past a version that is
due, and none is sealed before the reserved cell serves it, so the weights cannot move on under an evaluation.
"""

from __future__ import annotations

from scheduler.core.decisions import CancelEvaluation, Kind, ReserveCell, StartEvaluation
from scheduler.core.plan import Plan, called
from scheduler.core.safety import capacity_left
from scheduler.core.snapshot import LOST, ROLLOUT, STARTING, STOPPED, SWITCHING, TRAINING, Cell, Evaluation


def due(plan: Plan) -> bool:
    """The current version must be evaluated and no evaluation of it exists."""
    settings, version = plan.settings, plan.snapshot.version
    if not settings.eval_every_steps or not settings.eval_tasks or version in plan.snapshot.evaluated:
        return False
    return version % settings.eval_every_steps == 0 or version >= settings.steps


def pending(plan: Plan) -> bool:
    """An evaluation of this version is still to start (this call of `decide` has not started it either), or has lost
    its cell: no batch may open.

    If one opened now it could not be sealed before the evaluation has a cell; and where all cells then train for it,
    none could be spared.
    """
    return (due(plan) and not plan.evaluation_starts) or _lacks_cell(plan)


def _lacks_cell(plan: Plan) -> bool:
    evaluation = plan.snapshot.evaluation
    if evaluation is None or evaluation.version != plan.snapshot.version:
        return False
    return not any(
        plan.evaluation_of(c) == evaluation.number and c.role not in (LOST, STOPPED) for c in plan.snapshot.cells
    )


def unconfirmed(plan: Plan) -> bool:
    """The current version is to be evaluated, and no cell is confirmed to serve it for that: no batch may be sealed."""
    evaluation, version = plan.snapshot.evaluation, plan.snapshot.version
    if plan.evaluation_starts or due(plan):
        return True
    if evaluation is None or evaluation.version != version:
        return False
    return not any(
        c.evaluation == evaluation.number and c.role == ROLLOUT and c.weight_version == version
        for c in plan.snapshot.cells
    )


def evaluate(plan: Plan, fixed_split: bool) -> None:
    """Start what is due; give an evaluation that lost its cell another one, or cancel it."""
    evaluation = plan.snapshot.evaluation
    if evaluation is not None:
        _keep_going(plan, evaluation, fixed_split)
        if due(plan):
            plan.refuse(
                Kind.START_EVALUATION,
                "one_at_a_time",
                f"version {plan.snapshot.version} is due, evaluation {evaluation.number} of version "
                f"{evaluation.version} is still running",
            )
        return
    if not due(plan):
        return
    number, version = plan.snapshot.next_evaluation, plan.snapshot.version
    if (soon := _soon(plan)) is not None:
        plan.evaluation_waits = True
        plan.refuse(
            Kind.START_EVALUATION,
            "cell_coming",
            f"evaluation of version {version} waits for {called(soon)}, which is on its way to serve it",
        )
        return
    cell = _candidate(plan, fixed_split)
    if cell is None:
        plan.refuse(Kind.START_EVALUATION, "no_cell", f"evaluation of version {version} waits: {_shortage(plan)}")
        return
    plan.evaluation_starts = True
    _reserve(plan, cell, number)
    plan.accept(
        Kind.START_EVALUATION,
        "due",
        f"evaluates version {version} with {plan.settings.eval_tasks} tasks on {called(cell)}: "
        f"{len(plan.serving())} x {plan.settings.concurrency_per_cell} stay for W {plan.waterlevel}",
        cell,
        StartEvaluation(number, version, plan.settings.eval_tasks, switches=cell.role != ROLLOUT),
    )


def _keep_going(plan: Plan, evaluation: Evaluation, fixed_split: bool) -> None:
    holders = [c for c in plan.snapshot.cells if c.evaluation == evaluation.number and c.role not in (LOST, STOPPED)]
    moved_on = [c for c in holders if c.role == ROLLOUT and c.weight_version > evaluation.version]
    if holders and not moved_on:
        return
    if plan.snapshot.version != evaluation.version:
        plan.accept(
            Kind.CANCEL_EVALUATION,
            "cell_lost",
            f"cancels evaluation {evaluation.number}: its cell is gone and version {plan.snapshot.version} has "
            f"replaced {evaluation.version}",
            params=CancelEvaluation(evaluation.number),
        )
        return
    cell = None if moved_on else _candidate(plan, fixed_split)
    if cell is None:
        plan.refuse(
            Kind.RESERVE_CELL, "no_cell", f"evaluation {evaluation.number} lost its cell and waits: {_shortage(plan)}"
        )
        return
    _reserve(plan, cell, evaluation.number)
    plan.accept(
        Kind.RESERVE_CELL,
        "cell_lost",
        f"evaluation {evaluation.number} lost its cell and goes on on {called(cell)}",
        cell,
        ReserveCell(evaluation.number, switches=cell.role != ROLLOUT),
    )


def _reserve(plan: Plan, cell: Cell, number: int) -> None:
    plan.reserve(cell, number)
    plan.switch(cell, ROLLOUT)


def _soon(plan: Plan) -> Cell | None:
    """A satellite that will serve the version in a moment and can then be spared: better than to take the core."""
    coming, version = plan.coming(), plan.snapshot.version
    if not capacity_left(len(coming), plan.settings.concurrency_per_cell, plan.waterlevel):
        return None
    satellites = [c for c in coming if not c.is_core and c.role != STARTING]
    if any(c.role == ROLLOUT and c.weight_version == version for c in satellites):
        return None
    return next((c for c in satellites if c.role in (ROLLOUT, SWITCHING) and plan.orders.drain(c) is None), None)


def _candidate(plan: Plan, fixed_split: bool) -> Cell | None:
    """A rollout cell that can be spared, satellites first; else a cell in training that no batch needs."""
    serving, version, batch = plan.serving(), plan.snapshot.version, plan.snapshot.batch
    spare = [c for c in serving if c.weight_version == version and plan.orders.drain(c) is None]
    if spare and capacity_left(len(serving), plan.settings.concurrency_per_cell, plan.waterlevel):
        return min(spare, key=lambda c: (c.is_core, c.num_calls, c.num_kv_tokens, c.index))
    if fixed_split or (batch is not None and batch.sealed):
        return None
    idle = [
        c
        for c in plan.snapshot.cells
        if c.role == TRAINING
        and plan.desired(c) == TRAINING
        and not (c.is_core and batch is not None)
        and not plan.orders.forbids(c, ROLLOUT)
    ]
    return min(idle, key=lambda c: (c.is_core, c.num_uncounted, c.index), default=None)


def _shortage(plan: Plan) -> str:
    serving, concurrency = plan.serving(), plan.settings.concurrency_per_cell
    if capacity_left(len(serving), concurrency, plan.waterlevel):
        return f"no rollout cell serves version {plan.snapshot.version} yet"
    return f"{max(0, len(serving) - 1)} x {concurrency} < W {plan.waterlevel}"
