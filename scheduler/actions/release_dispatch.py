"""Let bursts be dispatched again after a person or an alarm held them (docs/algorithms.md §9)."""

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from agents import events
from agents.actions.errors import NotFound, Refused
from agents.models import Run
from scheduler.core.dispatch import VOID_GROUPS


def release_dispatch(run: Run, *, user: AbstractBaseUser | None, reason: str) -> Run:
    """Void groups are counted anew from here. Raises Refused when dispatch is not held."""
    with transaction.atomic():
        locked = Run.objects.select_for_update(no_key=True).filter(pk=run.pk).first()
        if locked is None:
            raise NotFound(f"run {run.pk} does not exist")
        if not locked.dispatch_held:
            raise Refused(f"dispatch of run {run.pk} is not held")
        locked.dispatch_held = False
        locked.save(update_fields=["dispatch_held"])
        by = user.get_username() if user else ""
        payload = {"code": VOID_GROUPS, "by": by, "reason": reason}
        events.record(run.pk, events.EventKind.ALARM_CLEARED, payload)
    return locked
