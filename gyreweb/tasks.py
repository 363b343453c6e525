"""Celery tasks that belong to no single app."""

import logging

from celery import shared_task

from agents.actions import enforce_retention as agents_retention
from agents.models import Run
from trainers.actions import enforce_retention as trainers_retention

log = logging.getLogger(__name__)


@shared_task
def enforce_retention() -> None:
    """Run by the scheduler every few minutes and when a run ends. Safe to run twice at once."""
    for run in Run.objects.only("id", "config").iterator():
        bodies, logs = agents_retention.enforce_retention(run)
        checkpoints = trainers_retention.enforce_retention(run)
        if bodies or logs or checkpoints:
            log.info("run %s: deleted %s bodies, %s logs, %s checkpoints", run.pk, bodies, logs, checkpoints)
