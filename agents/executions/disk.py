"""A full disk pauses runs with a reason, and they go on when there is room again. No execution is lost over it."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from django.db import transaction

from agents import events
from agents.actions.change_run_state import resume_run
from agents.actions.errors import Refused
from agents.executions import pauses
from agents.executions.leases import brief_connection
from agents.models import Run

CODE = "disk_full"
#: Below this no execution starts.
MIN_FREE_BYTES = 256 << 20


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def shortage(home: Path) -> str | None:
    """What to tell people when there is too little room for another execution."""
    free = shutil.disk_usage(home).free
    if free >= MIN_FREE_BYTES:
        return None
    return f"the disk is full: {free >> 20} MB free at {home}, {MIN_FREE_BYTES >> 20} MB needed; free some space"


def pause_runs(reason: str) -> None:
    """Pause every run that would start executions."""
    with brief_connection():
        for run in Run.objects.filter(state__in=(Run.State.STARTING, Run.State.RUNNING)):
            pauses.pause_run(run.pk, CODE, reason)


def resume_runs(home: Path) -> None:
    """End pauses that were ours, now that there is room; a person's pause is only ended by a person."""
    with brief_connection():
        for run in Run.objects.filter(state=Run.State.PAUSED):
            pause = events.newest(run.pk, events.EventKind.RUN_PAUSED)
            if pause is None or pause.get("code") != CODE or shortage(home):
                continue
            try:
                with transaction.atomic():
                    resume_run(run, user=None, reason="there is room on the disk again")
                    events.record(run.pk, events.EventKind.ALARM_CLEARED, {"code": CODE})
            except Refused:  # somebody was faster
                continue
