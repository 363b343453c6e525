"""An execution whose worker is gone starts again as attempt + 1 in the same row, up to `max_attempts` times."""

from django.db import transaction
from django.db.models.functions import Now

from agents import events
from agents.actions.finish_execution import finish_execution, harness_end
from agents.config import AgentSettings
from agents.core.outcome import Reason, Status, Verdict
from agents.models import Execution

State = Execution.State


def expire_leases(run_id: int, limit: int = 64) -> int:
    """Requeue running executions whose lease has run out by the database's clock; returns how many.

    Calls of the old attempt stay and are never trained. `launched` counts executions, not attempts: it stays.
    One that waits for its evaluator needs no new attempt: another evaluator takes it. What has lost its worker or
    evaluator as often as `max_attempts` allows is likely to be what ends them: it is unresolved.
    """
    with transaction.atomic():
        expired = list(
            Execution.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
            .filter(run=run_id, state__in=(State.RUNNING, State.EVALUATING), lease_expires_at__lt=Now())
            .select_related("run")
            .order_by("pk")[:limit]
        )
        over, again = [], []
        for row in expired:
            row.lost_attempts += bool(row.lease_owner)
            row.lease_owner, row.lease_expires_at = "", Now() if _is_over(row) else None
            if _is_over(row):
                over.append(row)
            elif row.state == State.RUNNING:
                again.append(row)
                row.attempt, row.state, row.key_hash = row.attempt + 1, State.QUEUED, None
        columns = ["attempt", "state", "key_hash", "lease_owner", "lease_expires_at", "lost_attempts"]
        Execution.objects.bulk_update(expired, columns)
        Execution.objects.filter(pk__in=[row.pk for row in again]).update(queued_at=Now())
        if again:
            events.record_all(
                run_id,
                [(events.EventKind.EXECUTION_RETRIED, {"execution": row.pk, "attempt": row.attempt}) for row in again],
            )
    for row in over:
        _give_up(row)
    return len(again)


def _is_over(row: Execution) -> bool:
    return bool(row.lost_attempts >= AgentSettings.readable(row.run.config)["max_attempts"])


def _give_up(row: Execution) -> None:
    times = "once" if row.lost_attempts == 1 else f"{row.lost_attempts} times"
    where = "evaluator" if row.state == State.EVALUATING else "worker"
    reason = (
        f"its {where} was lost, {times} in all, which max_attempts allows no more of: what it does may be what ends "
        "workers, see their logs"
    )
    verdict = Verdict(Status.UNRESOLVED, reason_code=Reason.ATTEMPTS_EXHAUSTED, reason=reason)
    finish_execution(row.pk, row.attempt, verdict, harness_end(row))
