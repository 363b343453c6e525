"""Pauses that a worker makes because this machine lacks something, with a reason that says what to do."""

from __future__ import annotations

import socket

from django.db import transaction

from agents import events
from agents.executions.leases import brief_connection
from agents.models import Run, RunEvent

#: The run's harness could not be installed.
NOT_INSTALLED = "harness_not_installed"
#: Runs known to this process to have no such alarm.
_without_alarm: set[int] = set()


def pause_run(run_id: int, code: str, reason: str) -> None:
    """Pause a run that starts executions, and raise the alarm `code`. Nothing happens when it is paused already."""
    _without_alarm.discard(run_id)
    starting = (Run.State.STARTING, Run.State.RUNNING)
    with brief_connection(), transaction.atomic():
        if Run.objects.filter(pk=run_id, state__in=starting).update(state=Run.State.PAUSED, state_reason=reason):
            paused = {"by": "worker", "host": socket.gethostname(), "code": code, "reason": reason}
            alarm = {"code": code, "message": reason, "severity": "bad"}
            events.record_all(run_id, [(events.EventKind.RUN_PAUSED, paused), (events.EventKind.ALARM_RAISED, alarm)])


def clear_not_installed(run_id: int) -> None:
    """The harness is there: clear the alarm that said it was not, if one did."""
    if run_id in _without_alarm:
        return
    with brief_connection(), transaction.atomic():
        raised, cleared = (
            RunEvent.objects.filter(run=run_id, kind=kind, payload__code=NOT_INSTALLED).order_by("-seq").first()
            for kind in (events.EventKind.ALARM_RAISED, events.EventKind.ALARM_CLEARED)
        )
        if raised is not None and (cleared is None or cleared.seq < raised.seq):
            events.record(run_id, events.EventKind.ALARM_CLEARED, {"code": NOT_INSTALLED})
    _without_alarm.add(run_id)
