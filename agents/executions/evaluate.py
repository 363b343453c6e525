"""Evaluate one attempt whose harness has ended, under a lease and a time budget of its own (algorithms.md §5)."""

from __future__ import annotations

import logging
import time

from django.db import InterfaceError, OperationalError

from agents.actions.finish_execution import finish_execution
from agents.config import RunConfig
from agents.core.outcome import Reason, Status, Verdict
from agents.executions import disk, leases
from agents.executions.keeping import keep
from agents.executions.leases import Lease
from agents.executions.worker import Worker
from agents.harness.drivers import DRIVERS
from agents.harness.evaluator import Evaluation, evaluate
from agents.harness.taskformat import BadTask
from agents.harness.worksite import Worksite

log = logging.getLogger(__name__)


def evaluate_next(worker: Worker) -> bool:
    """Evaluate the execution that has waited longest. False when none waits, or the disk is full."""
    if worker.disk.holds_evaluation():
        return False
    lease = leases.lease_evaluation(worker.owner)
    if lease is None:
        return False
    began = time.monotonic()
    with worker.heartbeat.holding(lease) as hold:
        try:
            verdict, site = _judge(worker, lease)
        except disk.Full:
            leases.give_up_one(lease, str(disk.Full()))
            return False
        if worker.disk.was_full_since(began) and not hold.lost.is_set():
            leases.give_up_one(lease, str(disk.Full()))
            return False
        if hold.lost.is_set():
            return True
        leases.persistently(lambda: finish_execution(lease.execution_id, lease.attempt, verdict, lease.end))
        if site is not None:
            site.workspace.remove()
    return True


def _judge(worker: Worker, lease: Lease) -> tuple[Verdict, Worksite | None]:
    driver = DRIVERS[lease.config.harness]
    place = worker.place(lease.run_id, lease.execution_id, lease.attempt)
    try:
        site = Worksite.open(lease.task_path, lease.task_digest, driver, worker.home, place)
        keep(worker.home, lease, site.workspace)
        evaluation = evaluation_of(lease.config)
        return evaluate(worker.evaluation_server, site, evaluation), site
    except (OperationalError, InterfaceError):
        raise
    except (BadTask, OSError) as error:
        if disk.is_full(error):
            worker.disk.met(error)
            raise disk.Full from error
        return _crashed(str(error)), None
    except Exception as error:
        log.exception("evaluation of execution %s attempt %s failed", lease.execution_id, lease.attempt)
        return _crashed(f"{type(error).__name__}: {error}"), None


def evaluation_of(config: RunConfig) -> Evaluation:
    """How a run has work evaluated."""
    return Evaluation(config.reward_key, config.evaluation_timeout_s, config.reward_sentinels)


def _crashed(reason: str) -> Verdict:
    return Verdict(Status.UNRESOLVED, reason_code=Reason.EVALUATOR_CRASHED, reason=reason.replace("\0", "�")[:2000])
