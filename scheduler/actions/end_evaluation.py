"""End an evaluation: score it when all its executions have ended, or cancel it (docs/algorithms.md §9)."""

from collections import defaultdict

from django.db import transaction
from django.utils import timezone

from agents import events
from agents.actions.cancel_execution import cancel_execution
from agents.actions.errors import Refused
from agents.facade import evaluation_rewards, owed_executions
from agents.models import Run
from scheduler.cells import tell_cells
from scheduler.models import Cell, Evaluation


def finish_evaluation(run: Run, number: int) -> bool:
    """Mean raw reward over the scored executions, also by kind of task; frees the cell. False: nothing to finish."""
    with transaction.atomic():
        row = Evaluation.objects.select_for_update(no_key=True).filter(run=run, number=number, state="running").first()
        if row is None or owed_executions(run.pk, number):
            return False
        rewards: dict[str, list[float]] = defaultdict(list)
        for kind, reward in evaluation_rewards(run.pk, number):
            if reward is not None:
                rewards[kind].append(reward)
        scored = [reward for of_kind in rewards.values() for reward in of_kind]
        row.num_scored = len(scored)
        row.reward_mean = _mean(scored) if scored else None
        row.by_kind = {kind: _mean(of_kind) for kind, of_kind in sorted(rewards.items())}
        row.state, row.finished_at = Evaluation.State.FINISHED, timezone.now()
        row.save()
        _free(run, number)
        payload = {
            "evaluation": number,
            "version": row.version,
            "reward_mean": row.reward_mean,
            "by_kind": row.by_kind,
            "num_scored": row.num_scored,
            "num_tasks": row.num_tasks,
        }
        events.record(run.pk, events.EventKind.EVALUATION_FINISHED, payload)
    return True


def cancel_evaluation(run: Run, number: int, reason: str) -> None:
    """Its executions that have not ended are cancelled; an alarm says that this version has no figure."""
    with transaction.atomic():
        for execution in owed_executions(run.pk, number):
            try:
                cancel_execution(execution, user=None, reason=reason)
            except Refused:
                continue  # it ended by itself meanwhile
        Evaluation.objects.filter(run=run, number=number, state=Evaluation.State.RUNNING).update(
            state=Evaluation.State.CANCELLED, finished_at=timezone.now()
        )
        _free(run, number)
        payload = {"code": "evaluation_cancelled", "message": reason, "severity": "warn"}
        events.record(run.pk, events.EventKind.ALARM_RAISED, payload)


def _free(run: Run, number: int) -> None:
    Cell.objects.filter(run=run, evaluation=number).update(evaluation=None)
    tell_cells(run.pk)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
