"""Retention of what is kept for looking things up: request bodies and logs. Tokens stay with the run."""

from datetime import timedelta
from typing import NamedTuple

from django.db.models import Q
from django.utils import timezone

from agents.models import Assessment, Execution, RequestBody, Run

CHUNK_ROWS = 1_000


class Retained(NamedTuple):
    bodies_deleted: int
    logs_emptied: int


def enforce_retention(run: Run) -> Retained:
    """Delete bodies older than `retain_bodies` days and empty logs older than `retain_logs` days, in chunks."""
    now = timezone.now()
    old_bodies = RequestBody.objects.filter(run=run, created_at__lt=now - timedelta(days=run.config["retain_bodies"]))
    bodies = 0
    while chunk := list(old_bodies.values_list("pk", flat=True)[:CHUNK_ROWS]):
        bodies += RequestBody.objects.filter(pk__in=chunk).delete()[0]
    logs_before = now - timedelta(days=run.config["retain_logs"])
    logs = Execution.objects.filter(~Q(harness_log=""), run=run, finished_at__lt=logs_before).update(harness_log="")
    logs += Assessment.objects.filter(~Q(log=""), execution__run=run, created_at__lt=logs_before).update(log="")
    return Retained(bodies, logs)
