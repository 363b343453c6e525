"""Celery tasks that belong to no single app."""

import logging

from celery import shared_task

from agents import facade
from agents.actions import enforce_retention as agents_retention
from agents.actions import reassess_execution
from agents.models import Run
from trainers.actions import enforce_retention as trainers_retention

log = logging.getLogger(__name__)


@shared_task
def enforce_retention() -> None:
    """Run by the scheduler every few minutes and when a run ends. Safe to run twice at once."""
    for run in Run.objects.only("id", "config", "state").iterator():
        bodies, logs, workspaces = agents_retention.enforce_retention(run)
        checkpoints = trainers_retention.enforce_retention(run)
        if bodies or logs or workspaces or checkpoints:
            counts = (run.pk, bodies, logs, workspaces, checkpoints)
            log.info("run %s: deleted %s bodies, %s logs, files of %s executions, %s checkpoints", *counts)
    if facade.num_waiting_reassessments():
        reassess_execution.wake()
