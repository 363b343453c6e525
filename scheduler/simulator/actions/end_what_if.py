"""Cancel a what-if, or have an interrupted one go on. What was simulated stays."""

from django.db import transaction
from django.db.models.functions import Now

from agents.actions.errors import NotFound, Refused
from scheduler.models import WhatIf
from scheduler.simulator.whatif import wakes

State = WhatIf.State


def cancel_what_if(row: WhatIf) -> WhatIf:
    """The worker stops at its next check, within a second. Raises Refused when it is over already."""
    with transaction.atomic():
        found = _locked(row)
        if found.state not in WhatIf.OPEN_STATES:
            raise Refused(f"what-if {found.pk} is over already: {found.state}")
        found.state, found.finished_at = State.CANCELLED, Now()
        found.save(update_fields=["state", "finished_at"])
    return found


def resume_what_if(row: WhatIf) -> WhatIf:
    """Go on with what is left. Raises Refused unless it was interrupted or cancelled."""
    with transaction.atomic():
        found = _locked(row)
        if found.state not in (State.INTERRUPTED, State.CANCELLED):
            raise Refused(f"what-if {found.pk} is {found.state}; only an interrupted or cancelled one can go on")
        found.state, found.num_workers, found.error, found.finished_at = State.QUEUED, 0, "", None
        found.lease_owner, found.lease_expires_at = "", None
        found.save(update_fields=["state", "num_workers", "error", "finished_at", "lease_owner", "lease_expires_at"])
        wakes.wake(found.pk)
    return found


def _locked(row: WhatIf) -> WhatIf:
    found = WhatIf.objects.select_for_update(no_key=True).defer("inputs").filter(pk=row.pk).first()
    if found is None:
        raise NotFound(f"what-if {row.pk} does not exist")
    return found
