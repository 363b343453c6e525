"""Pauses that a worker makes because this machine lacks something, with a reason that says what to do."""

from __future__ import annotations

from django.db import transaction

from agents import events
from agents.executions.leases import brief_connection
from agents.models import Run

#: The run's harness could not be installed.
NOT_INSTALLED = "harness_not_installed"


def pause_run(run_id: int, code: str, reason: str) -> None:
    """Pause a run that starts executions, and raise the alarm `code`. Nothing happens when it is paused already."""
    starting = (Run.State.STARTING, Run.State.RUNNING)
    with brief_connection(), transaction.atomic():
        if Run.objects.filter(pk=run_id, state__in=starting).update(state=Run.State.PAUSED, state_reason=reason):
            paused = {"by": "worker", "code": code, "reason": reason}
            alarm = {"code": code, "message": reason, "severity": "bad"}
            events.record_all(run_id, [(events.EventKind.RUN_PAUSED, paused), (events.EventKind.ALARM_RAISED, alarm)])
