"""Celery tasks for executions. A message carries nothing: it wakes a worker, which asks the database what to do."""

import logging
from functools import cache, partial
from typing import Any

from celery import shared_task
from celery.signals import task_failure, worker_init, worker_ready, worker_shutting_down
from django.db import DatabaseError, InterfaceError
from kombu.exceptions import OperationalError

from agents.executions.crew import Crew
from agents.executions.evaluate import evaluate_attempt, take_evaluations
from agents.executions.keeping import clear_orphans
from agents.executions.leases import Lease, replace_broken_connections
from agents.executions.leftovers import clear_directories, clear_leftovers
from agents.executions.reassess import reassess_next
from agents.executions.run import Ending, run_attempt, take_queued
from agents.executions.worker import this_worker

log = logging.getLogger(__name__)
#: Threads of each crew: as many as Celery was told to have.
_threads = 1


@shared_task(name="agents.tasks.run_execution", queue="executions")
def run_execution() -> None:
    """Have this worker's threads run queued executions, until none is queued."""
    _run_crew().wake()


@shared_task(name="agents.tasks.evaluate_execution", queue="evaluation")
def evaluate_execution() -> None:
    """Have executions evaluated whose harness has ended; then those that a person wants assessed again."""
    _evaluation_crew().wake()
    worker = this_worker()
    while not worker.ending.is_set() and reassess_next(worker):
        pass


@cache
def _run_crew() -> Crew[Lease]:
    worker = this_worker()
    return Crew("execution", _threads, lambda limit: take_queued(worker, limit), _run)


@cache
def _evaluation_crew() -> Crew[Lease]:
    worker = this_worker()
    evaluate = partial(evaluate_attempt, worker)
    return Crew("evaluation", _threads, lambda limit: take_evaluations(worker, limit), evaluate)


def _run(lease: Lease) -> None:
    if run_attempt(this_worker(), lease, evaluates=True) is Ending.TO_EVALUATE:
        _wake_evaluation()


def _wake_evaluation() -> None:
    try:
        evaluate_execution.apply_async(retry=False)
    except (OperationalError, OSError) as error:
        log.warning("could not wake an evaluation: %s; it is sent again while the work waits", error)


@worker_init.connect
def _on_init(sender: Any, **_: Any) -> None:
    global _threads
    _threads = sender.concurrency or _threads


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
    for crew in (_run_crew, _evaluation_crew):
        if crew.cache_info().currsize:
            crew().end()
    this_worker().end()


@task_failure.connect
def _on_failure(exception: BaseException | None = None, **_: Any) -> None:
    if isinstance(exception, DatabaseError | InterfaceError):
        replace_broken_connections()
