"""While L - F < |R| * c, launch the oldest dispatched execution (docs/algorithms.md §9)."""

from __future__ import annotations

from scheduler.core.decisions import Kind, Launch, LaunchEvaluation
from scheduler.core.plan import Plan, called
from scheduler.core.snapshot import ROLLOUT


def num_to_launch(num_waiting: int, num_occupied: int, num_serving: int, concurrency: int) -> int:
    """Executions that may start now: at most those that wait, at most the free places; 0 or less: none."""
    return min(num_waiting, num_serving * concurrency - num_occupied)


def launch(plan: Plan) -> None:
    """Only executions that were dispatched before this call of `decide`: their rows exist."""
    snapshot, concurrency = plan.snapshot, plan.settings.concurrency_per_cell
    waiting, occupied = snapshot.counters.waiting, snapshot.counters.occupied
    if waiting <= 0:
        return
    serving = plan.serving()
    newest = max((burst.version for burst in snapshot.bursts), default=0)
    outdated = next((cell for cell in serving if cell.weight_version < newest), None)
    if outdated is not None:
        plan.refuse(
            Kind.LAUNCH,
            "weights_behind",
            f"no launch yet: {called(outdated)} serves version {outdated.weight_version}, the burst needs {newest}",
        )
        return
    count = num_to_launch(waiting, occupied, len(serving), concurrency)
    if count <= 0:
        plan.refuse(
            Kind.LAUNCH,
            "no_room" if serving else "no_rollout_cell",
            f"no launch: {occupied} of {len(serving)} x {concurrency} places are taken, {waiting} executions wait",
        )
        return
    plan.accept(
        Kind.LAUNCH,
        "room",
        f"launches {count}: {occupied} of {len(serving)} x {concurrency} places were taken, {waiting} waited",
        params=Launch(count),
    )


def launch_evaluation(plan: Plan) -> None:
    """Evaluation executions run on their reserved cell alone, once it serves exactly their version."""
    evaluation, concurrency = plan.snapshot.evaluation, plan.settings.concurrency_per_cell
    if evaluation is None or evaluation.num_waiting <= 0:
        return
    cell = next((c for c in plan.snapshot.cells if c.evaluation == evaluation.number), None)
    if cell is None or cell.role != ROLLOUT or cell.weight_version != evaluation.version:
        plan.refuse(
            Kind.LAUNCH_EVALUATION,
            "cell_not_ready",
            f"evaluation {evaluation.number} waits: no reserved cell serves version {evaluation.version} yet",
        )
        return
    count = min(evaluation.num_waiting, concurrency - evaluation.num_running)
    if count > 0:
        plan.accept(
            Kind.LAUNCH_EVALUATION,
            "room",
            f"launches {count} of evaluation {evaluation.number} on {called(cell)}: {evaluation.num_running} of "
            f"{concurrency} places were taken",
            cell,
            LaunchEvaluation(evaluation.number, count),
        )
