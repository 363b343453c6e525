"""Stop, pause and resume a run. The scheduler carries the request out; each is an event with its owner and reason."""

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from agents import events
from agents.actions.errors import NotFound, Refused, check_reason
from agents.models import Run

State = Run.State


def stop_run(run: Run, *, user: AbstractBaseUser | None, reason: str) -> Run:
    """Owed executions are cancelled and cells stop; what was recorded and stepped stays."""
    with transaction.atomic():
        if _locked(run).state == State.QUEUED:
            over = {"state": State.STOPPED, "finished_at": timezone.now()}
            return _change(run, [State.QUEUED], user, reason, events.EventKind.RUN_STOPPED, **over)
        allowed = [s for s in Run.LIVE_STATES if s != State.STOPPING]
        return _change(run, allowed, user, reason, None, state=State.STOPPING)


def pause_run(run: Run, *, user: AbstractBaseUser | None, reason: str) -> Run:
    """No dispatch and no launch; running executions finish and are kept."""
    return _change(run, [State.RUNNING, State.STARTING], user, reason, events.EventKind.RUN_PAUSED, state=State.PAUSED)


def resume_run(run: Run, *, user: AbstractBaseUser | None, reason: str = "") -> Run:
    """Back to `starting`: the scheduler brings up what is missing and goes on."""
    return _change(
        run, [State.PAUSED], user, reason, events.EventKind.RUN_RESUMED, state=State.STARTING, state_reason=""
    )


def _change(
    run: Run,
    allowed: Iterable[str],
    user: AbstractBaseUser | None,
    reason: str,
    kind: events.EventKind | None,
    **changes: Any,
) -> Run:
    check_reason(reason)
    with transaction.atomic():
        locked = _locked(run)
        if locked.state not in allowed:
            wanted = ", ".join(sorted(allowed))
            raise Refused(f"run {locked.pk} is {locked.state}; this needs a run that is one of: {wanted}")
        changes.setdefault("state_reason", reason)
        for field, value in changes.items():
            setattr(locked, field, value)
        locked.save(update_fields=list(changes))
        if kind:
            events.record(locked.pk, kind, {"by": user.get_username() if user else "", "reason": reason})
    return locked


def _locked(run: Run) -> Run:
    locked = Run.objects.select_for_update(no_key=True).filter(pk=run.pk).first()
    if locked is None:
        raise NotFound(f"run {run.pk} does not exist")
    return locked
