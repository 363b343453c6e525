"""Messages that wake workers. Each may be lost or doubled: the work stands in Postgres and is asked for again."""

import logging

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

from agents.executions.crew import AT_ONCE

log = logging.getLogger(__name__)

RUN_EXECUTION = "agents.tasks.run_execution"
EVALUATE_EXECUTION = "agents.tasks.evaluate_execution"
LAUNCH_CELLS = "scheduler.tasks.launch_cells"
ENFORCE_RETENTION = "gyreweb.tasks.enforce_retention"
MAX_WAKES = 32


def wake(task: str, *arguments: object, times: int = 1) -> None:
    """Send after the current transaction has committed."""
    transaction.on_commit(lambda: _send(task, arguments, times), robust=True)


def wake_for(task: str, num_waiting: int) -> None:
    """Ring for so many executions: a worker takes several per message, and several workers share them."""
    wake(task, times=min(-(-num_waiting // AT_ONCE), MAX_WAKES))


def _send(task: str, arguments: tuple[object, ...], times: int) -> None:
    try:
        with current_app.producer_or_acquire() as producer:
            for _ in range(times):
                current_app.send_task(task, args=arguments, producer=producer, retry=False, ignore_result=True)
    except (OperationalError, OSError) as error:
        log.warning("could not send %s: %s; it is sent again while the work waits", task, error)
