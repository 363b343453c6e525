"""Release an override before it expires: the scheduler decides freely again from its next evaluation on."""

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from agents import events
from scheduler.actions.set_override import locked_override
from scheduler.models import Override


def release_override(
    override: Override, *, user: AbstractBaseUser | None, reason: str = "", row_version: int | None = None
) -> Override:
    """`row_version`: what the person saw. Raises Refused when it is over already or was changed since."""
    with transaction.atomic():
        row = locked_override(override.pk, row_version)
        row.released_at = timezone.now()
        row.row_version += 1
        row.save(update_fields=["released_at", "row_version"])
        by = user.get_username() if user else ""
        payload = {"override": row.pk, "kind": row.kind, "cell": row.cell_index, "by": by, "reason": reason}
        events.record(row.run_id, events.EventKind.OVERRIDE_RELEASED, payload)
    return row
