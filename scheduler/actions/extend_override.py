"""Let an override hold longer or shorter: its other words stay, and so does its owner (docs/algorithms.md §9)."""

from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from agents import events
from scheduler.actions.set_override import check_expiry, locked_override
from scheduler.models import Override


def extend_override(
    override: Override, *, user: AbstractBaseUser | None, expires_at: datetime, row_version: int | None = None
) -> Override:
    """`row_version`: what the person saw. Raises Refused when it is over or was changed since, or for a bad expiry."""
    with transaction.atomic():
        row = locked_override(override.pk, row_version)
        check_expiry(expires_at)
        before, row.expires_at = row.expires_at, expires_at
        row.row_version += 1
        row.save(update_fields=["expires_at", "row_version"])
        payload = {
            "override": row.pk,
            "kind": row.kind,
            "cell": row.cell_index,
            "by": user.get_username() if user else "",
            "expires_at": expires_at.isoformat(),
            "expired_at": before.isoformat(),
        }
        events.record(row.run_id, events.EventKind.OVERRIDE_EXTENDED, payload)
    return row
