"""Cancel one execution. Never launched: it is no longer owed (docs/algorithms.md §9). Running: its worker kills it."""

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from agents import events
from agents.actions.close_group import close_group_if_complete
from agents.actions.errors import NotFound, Refused, check_reason
from agents.models import Execution, Group, Run

State = Execution.State


def cancel_execution(execution: Execution, *, user: AbstractBaseUser | None, reason: str) -> Execution:
    """A cancelled execution has no reward and no vote (docs/algorithms.md §5).

    A running one counts as finished, since it was launched; one that never launched lowers `dispatched`.
    """
    check_reason(reason)
    with transaction.atomic():
        row = Execution.objects.select_for_update(no_key=True).select_related("group").filter(pk=execution.pk).first()
        if row is None:
            raise NotFound(f"execution {execution.pk} does not exist")
        if row.state in (State.FINISHED, State.CANCELLED):
            raise Refused(f"execution {row.pk} is already {row.state}")
        launched = row.launched_at is not None
        row.state, row.outcome, row.reason_code, row.reason = (
            State.CANCELLED,
            Execution.Outcome.CANCELLED,
            "cancelled",
            reason,
        )
        row.finished_at, row.key_hash, row.lease_owner, row.lease_expires_at = timezone.now(), None, "", None
        row.save()
        close_group_if_complete(row.group_id)
        if row.group.kind == Group.Kind.TRAINING:
            counter = "finished" if launched else "dispatched"
            Run.objects.filter(pk=row.run_id).update(**{counter: F(counter) + (1 if launched else -1)})
        events.record(
            row.run_id,
            events.EventKind.EXECUTION_FINISHED,
            {
                "execution": row.pk,
                "group": row.group_id,
                "outcome": row.outcome,
                "reason_code": row.reason_code,
                "by": user.get_username() if user else "",
                "reason": reason,
            },
        )
    return row
