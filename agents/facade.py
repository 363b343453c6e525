"""What other apps may ask about runs and executions. Reads only; changes are in `agents.actions`."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Now

from agents.models import Execution, Group, Reassessment, Run


@dataclass(frozen=True)
class ExecutionTotals:
    """Counts of one run's finished training executions, and false forks of all its executions."""

    num_finished: int
    num_unresolved: int
    num_false_forks: int


def run(run_id: int) -> Run:
    """Raises Run.DoesNotExist."""
    return Run.objects.get(pk=run_id)


def unfinished_runs() -> QuerySet[Run]:
    """Runs that can still go on, oldest first."""
    return Run.objects.filter(state__in=Run.LIVE_STATES).order_by("pk")


def execution_totals(run_id: int) -> ExecutionTotals:
    training = Q(group__kind=Group.Kind.TRAINING, state=Execution.State.FINISHED)
    totals = Execution.objects.filter(run=run_id).aggregate(
        finished=Count("pk", filter=training),
        unresolved=Count("pk", filter=training & Q(outcome=Execution.Outcome.UNRESOLVED)),
        false_forks=Sum("num_false_forks", default=0),
    )
    return ExecutionTotals(totals["finished"], totals["unresolved"], totals["false_forks"])


def recent_pass_rate(run_id: int, num_executions: int) -> float | None:
    """Share with full reward (1) among the newest scored training executions; None before the first."""
    rewards = (
        Execution.objects.filter(run=run_id, group__kind=Group.Kind.TRAINING, reward__isnull=False)
        .order_by("-finished_at")
        .values_list("reward", flat=True)[:num_executions]
    )
    passed = [reward >= 1.0 for reward in rewards]
    return sum(passed) / len(passed) if passed else None


def evaluation_rewards(run_id: int, evaluation: int) -> list[tuple[str, float | None]]:
    """(kind of task, reward or None when unresolved) of each execution of an evaluation that has ended."""
    ended = Execution.objects.filter(
        run=run_id,
        group__kind=Group.Kind.EVALUATION,
        group__evaluation=evaluation,
        state__in=[Execution.State.FINISHED, Execution.State.CANCELLED],
    )
    return list(ended.order_by("group__number").values_list("group__task__kind", "reward"))


def owed_executions(run_id: int, evaluation: int | None = None) -> list[Execution]:
    """Executions without a result: all of the run's, or those of one evaluation."""
    over = [Execution.State.FINISHED, Execution.State.CANCELLED]
    rows = Execution.objects.filter(run=run_id).exclude(state__in=over)
    if evaluation is not None:
        rows = rows.filter(group__kind=Group.Kind.EVALUATION, group__evaluation=evaluation)
    return list(rows.order_by("pk"))


def num_long_queued(run_id: int, for_s: float) -> int:
    """Executions that were queued so long ago that their wake-up may be lost."""
    long_ago = Now() - timedelta(seconds=for_s)
    return Execution.objects.filter(run=run_id, state=Execution.State.QUEUED, queued_at__lt=long_ago).count()


def num_long_unevaluated(run_id: int, for_s: float) -> int:
    """Executions whose harness ended so long ago, and that no evaluator has."""
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now())
    long_ago = Now() - timedelta(seconds=for_s)
    waiting = Execution.objects.filter(free, run=run_id, state=Execution.State.EVALUATING)
    return waiting.filter(harness_ended_at__lt=long_ago).count()


def num_waiting_reassessments() -> int:
    """Wishes for another assessment that nobody works on."""
    free = Q(state=Reassessment.State.QUEUED) | Q(state=Reassessment.State.RUNNING, lease_expires_at__lt=Now())
    return Reassessment.objects.filter(free).count()
