"""Retention of what is kept for looking things up and assessing again: request bodies, logs, what executions left.

Tokens stay with the run.
"""

import socket
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from agents.config import AgentSettings
from agents.models import Assessment, Execution, KeptWorkspace, Reassessment, RequestBody, Run

CHUNK_ROWS = 1_000


class Retained(NamedTuple):
    bodies_deleted: int
    logs_emptied: int
    workspaces_deleted: int


def enforce_retention(run: Run) -> Retained:
    """Delete bodies older than `retain_bodies` days and empty logs older than `retain_logs` days, in chunks; delete
    archives older than `retain_workspaces` days."""
    now = timezone.now()
    old_bodies = RequestBody.objects.filter(run=run, created_at__lt=now - timedelta(days=run.config["retain_bodies"]))
    bodies = 0
    while chunk := list(old_bodies.values_list("pk", flat=True)[:CHUNK_ROWS]):
        bodies += RequestBody.objects.filter(pk__in=chunk).delete()[0]
    logs_before = now - timedelta(days=run.config["retain_logs"])
    logs = Execution.objects.filter(~Q(harness_log=""), run=run, finished_at__lt=logs_before).update(harness_log="")
    logs += Assessment.objects.filter(~Q(log=""), execution__run=run, created_at__lt=logs_before).update(log="")
    return Retained(bodies, logs, _delete_workspaces(run, now - timedelta(days=workspace_days(run))))


def workspace_days(run: Run) -> float:
    """How long the files of its executions are kept; the default for a run from before there was the setting."""
    return float(run.config.get("retain_workspaces", AgentSettings.model_fields["retain_workspaces"].default))


def _delete_workspaces(run: Run, before: datetime) -> int:
    """Archives of this machine; one that another assessment is queued for stays until that is over."""
    old = KeptWorkspace.objects.filter(
        execution__run=run, created_at__lt=before, deleted_at=None, host=socket.gethostname()
    ).exclude(path="")
    waiting = Reassessment.objects.filter(execution=OuterRef("execution"), finished_at=None)
    num = 0
    for row in old.exclude(Exists(waiting)).iterator():
        Path(row.path).unlink(missing_ok=True)
        row.deleted_at = timezone.now()
        row.save(update_fields=["deleted_at"])
        num += 1
    return num
