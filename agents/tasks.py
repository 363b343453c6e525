"""Celery tasks for executions. A message carries nothing: it wakes a worker, which asks the database what to do."""

import logging
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down
from kombu.exceptions import OperationalError

from agents.executions.evaluate import evaluate_next
from agents.executions.keeping import clear_orphans
from agents.executions.leftovers import clear_directories, clear_leftovers
from agents.executions.reassess import reassess_next
from agents.executions.run import run_next
from agents.executions.worker import this_worker

log = logging.getLogger(__name__)


@shared_task(name="agents.tasks.run_execution", queue="executions")
def run_execution() -> None:
    """Run queued executions, one after another, until none is queued."""
    worker = this_worker()
    while not worker.ending.is_set() and run_next(worker):
        _wake_evaluation()


@shared_task(name="agents.tasks.evaluate_execution", queue="evaluation")
def evaluate_execution() -> None:
    """Evaluate executions whose harness has ended, then those that a person wants assessed again, until none waits."""
    worker = this_worker()
    while not worker.ending.is_set() and (evaluate_next(worker) or reassess_next(worker)):
        pass


def _wake_evaluation() -> None:
    try:
        evaluate_execution.apply_async(retry=False)
    except (OperationalError, OSError) as error:
        log.warning("could not wake an evaluation: %s; it is sent again while the work waits", error)


@worker_ready.connect
def _on_ready(sender: Any, **_: Any) -> None:
    this_worker().disk.start()
    if "executions" in sender.app.amqp.queues.consume_from:
        this_worker().harness_server.warm_up()
        clear_directories(this_worker().home)
        clear_orphans(this_worker().home)
    if num := clear_leftovers():
        log.warning("%d executions of a worker that died start again", num)


@worker_shutting_down.connect
def _on_shutdown(**_: Any) -> None:
    this_worker().end()
