"""What other apps may ask about runs and executions. Reads only; changes are in `agents.actions`."""

from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet, Sum

from agents.models import Execution, Group, Run


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
    """Share of complete outcomes among the newest scored training executions; None before the first."""
    outcomes = (
        Execution.objects.filter(run=run_id, group__kind=Group.Kind.TRAINING, reward__isnull=False)
        .order_by("-finished_at")
        .values_list("outcome", flat=True)[:num_executions]
    )
    passed = [outcome == Execution.Outcome.COMPLETE for outcome in outcomes]
    return sum(passed) / len(passed) if passed else None
