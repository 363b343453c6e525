"""Evaluate one attempt whose harness has ended, under a lease and a time budget of its own (docs/algorithms.md §5)."""

from __future__ import annotations

import logging
import time

from django.db import InterfaceError, OperationalError

from agents.actions.finish_execution import finish_execution
from agents.config import AgentSettings
from agents.core.bounds import storable
from agents.core.outcome import Reason, Status, Verdict
from agents.executions import disk, leases
from agents.executions.heartbeat import Hold
from agents.executions.keeping import keep
from agents.executions.leases import Lease
from agents.executions.worker import Worker
from agents.harness.drivers import DRIVERS
from agents.harness.evaluator import Evaluation, evaluate
from agents.harness.taskformat import BadTask
from agents.harness.worksite import Worksite

log = logging.getLogger(__name__)


#: An evaluation of at most so long is done by the worker that ran the harness, which then holds its thread.
SHORT_S = 60.0


def is_short(site: Worksite, config: AgentSettings) -> bool:
    """Whether the evaluator needs no thread of its own: its limits are short, and it needs no files but those here."""
    verifier = site.task.config.verifier
    return verifier.environment_mode == "shared" and min(config.evaluation_timeout_s, verifier.timeout_s) <= SHORT_S


def take_evaluations(worker: Worker, limit: int) -> list[Lease]:
    """Lease those that have waited longest, at most `limit`; none while the disk is full."""
    if worker.disk.holds_evaluation():
        return []
    return leases.persistently(lambda: leases.lease_evaluations(worker.owner, limit))


def evaluate_attempt(worker: Worker, lease: Lease) -> None:
    with worker.heartbeat.holding(lease) as hold:
        evaluate_leased(worker, lease, hold)


def evaluate_leased(worker: Worker, lease: Lease, hold: Hold) -> None:
    """Evaluate an attempt whose lease is kept alive by the caller. What met a full disk is evaluated again later."""
    began = time.monotonic()
    try:
        verdict, site = _judge(worker, lease)
    except disk.Full:
        leases.give_up_one(lease, str(disk.Full()))
        return
    if hold.lost.is_set():
        return
    if worker.disk.was_full_since(began):
        leases.give_up_one(lease, str(disk.Full()))
        return
    leases.persistently(lambda: finish_execution(lease.execution_id, lease.attempt, verdict, lease.end))
    if site is not None:
        site.workspace.remove()


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


def evaluation_of(config: AgentSettings) -> Evaluation:
    """How a run has work evaluated."""
    return Evaluation(config.reward_key, config.evaluation_timeout_s, config.reward_sentinels)


def _crashed(reason: str) -> Verdict:
    return Verdict(Status.UNRESOLVED, reason_code=Reason.EVALUATOR_CRASHED, reason=storable(reason)[:2000])
