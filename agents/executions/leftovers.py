"""After a crash: end what an earlier worker of this machine left running, and let its leases expire at once."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from django.db.models.functions import Now

from agents.executions.leases import State, brief_connection
from agents.harness.sandbox.processes import boot_id, kill_if_same, start_ticks
from agents.models import Execution, Reassessment


def clear_leftovers() -> int:
    """Number of executions whose worker on this machine is dead; they start again as the next attempt."""
    host, boot, dead = socket.gethostname(), boot_id(), []
    with brief_connection():
        rows = Execution.objects.filter(
            state__in=(State.RUNNING, State.EVALUATING), lease_owner__startswith=f"{host}/"
        ).only("pk", "lease_owner", "sandbox")
        for execution in rows:
            _, pid, start = execution.lease_owner.split("/")
            same_boot = execution.sandbox.get("boot", boot) == boot
            if same_boot and str(start_ticks(int(pid))) == start:
                continue
            dead.append(execution.pk)
            if same_boot and "pid" in execution.sandbox:
                kill_if_same(execution.sandbox["pid"], execution.sandbox["start"] or -1)
        Execution.objects.filter(pk__in=dead).update(lease_expires_at=Now())
    return len(dead)


def clear_directories(home: Path) -> int:
    """Delete the directories of attempts that are over; a crash between the end and the clean-up leaves them."""
    with brief_connection():
        live = Execution.objects.filter(state__in=(State.RUNNING, State.EVALUATING)).values_list("pk", "attempt")
        kept = {f"{pk}-{attempt}" for pk, attempt in live}
        requests = Reassessment.objects.filter(state=Reassessment.State.RUNNING).values_list("pk", flat=True)
        kept_requests = {str(pk) for pk in requests}
    over = [place for place in home.glob("runs/*/executions/*-*") if place.name not in kept]
    over += [place for place in home.glob("runs/*/reassessments/*") if place.name not in kept_requests]
    for place in over:
        shutil.rmtree(place, ignore_errors=True)
    return len(over)
