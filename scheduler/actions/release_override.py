"""Release an override before it expires: the scheduler decides freely again from its next evaluation on."""

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from agents import events
from agents.actions.errors import NotFound, Refused
from scheduler.models import Override


def release_override(override: Override, *, user: AbstractBaseUser | None, reason: str = "") -> Override:
    """Raises Refused when it is over already."""
    with transaction.atomic():
        row = Override.objects.select_for_update(no_key=True).filter(pk=override.pk).first()
        if row is None:
            raise NotFound(f"override {override.pk} does not exist")
        if row.released_at is not None or row.expires_at <= timezone.now():
            raise Refused(f"override {row.pk} is over already")
        row.released_at = timezone.now()
        row.row_version += 1
        row.save(update_fields=["released_at", "row_version"])
        by = user.get_username() if user else ""
        payload = {"override": row.pk, "kind": row.kind, "cell": row.cell_index, "by": by, "reason": reason}
        events.record(row.run_id, events.EventKind.OVERRIDE_RELEASED, payload)
    return row
