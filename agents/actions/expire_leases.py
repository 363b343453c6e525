"""An execution whose worker is gone starts again as attempt + 1 in the same row (reliability.md)."""

from django.db import transaction
from django.db.models.functions import Now

from agents import events
from agents.models import Execution

State = Execution.State


def expire_leases(run_id: int, limit: int = 64) -> int:
    """Requeue running executions whose lease has run out by the database's clock; returns how many.

    Calls of the old attempt stay and are never trained. `launched` counts executions, not attempts: it stays.
    One that waits for its evaluator needs no new attempt: another evaluator takes it.
    """
    with transaction.atomic():
        expired = list(
            Execution.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
            .filter(run=run_id, state=State.RUNNING, lease_expires_at__lt=Now())
            .order_by("pk")[:limit]
        )
        for row in expired:
            row.attempt += 1
            row.state = State.QUEUED
            row.key_hash, row.lease_owner, row.lease_expires_at = None, "", None
        Execution.objects.bulk_update(expired, ["attempt", "state", "key_hash", "lease_owner", "lease_expires_at"])
        Execution.objects.filter(pk__in=[row.pk for row in expired]).update(queued_at=Now())
        if expired:
            events.record_all(
                run_id,
                [
                    (events.EventKind.EXECUTION_RETRIED, {"execution": row.pk, "attempt": row.attempt})
                    for row in expired
                ],
            )
    return len(expired)
