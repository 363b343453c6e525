"""Run one attempt: prepare, harness under its time limits, hand over to the evaluators (docs/algorithms.md §5).

Whatever goes wrong ends in a reason code: an attempt is never lost and never silently zero.
"""

from __future__ import annotations

import logging
import shutil
import time
from enum import Enum
from pathlib import Path

from django.db import InterfaceError, OperationalError

from agents.actions.finish_execution import finish_execution
from agents.core.bounds import storable
from agents.core.outcome import HarnessEnd, Reason, Status, Verdict
from agents.executions import disk, leases, pauses
from agents.executions.evaluate import evaluate_leased, is_short
from agents.executions.heartbeat import Hold
from agents.executions.leases import Lease
from agents.executions.worker import Worker
from agents.harness.drivers import DRIVERS
from agents.harness.drivers.base import Ended
from agents.harness.install import Installed, InstallError, install
from agents.harness.sandbox.base import SandboxError
from agents.harness.sandbox.client import Sandbox
from agents.harness.sandbox.processes import boot_id, start_ticks
from agents.harness.sandbox.workspace import read_log
from agents.harness.taskformat import BadTask
from agents.harness.worksite import Worksite

log = logging.getLogger(__name__)

#: Shortest time between two readings of the held time of an attempt that has used up its own.
_HELD_CHECK_S = 0.5


def take_queued(worker: Worker, limit: int) -> list[Lease]:
    """Lease the oldest queued executions, at most `limit`; none while the disk is full."""
    if worker.disk.check():
        return []
    # Repeated after a commit of unknown outcome, it takes others; those of the lost answer start again by their leases.
    return leases.persistently(lambda: leases.lease_queued(worker.owner, limit))


class Ending(Enum):
    """What became of a leased attempt in this worker."""

    OVER = "over"  # finished, lost or cancelled
    TO_EVALUATE = "to evaluate"  # its harness has ended, and no one holds it
    GIVEN_UP = "given up"  # this machine lacks something; it starts again when that is there


def run_attempt(worker: Worker, lease: Lease, evaluates: bool = False) -> Ending:
    """Run an attempt to the end of its harness. With `evaluates` also its evaluator, where that is short."""
    began = time.monotonic()
    with worker.heartbeat.holding(lease) as hold:
        attempt = _Attempt(worker, lease, hold, evaluates)
        try:
            attempt.run()
        except (OperationalError, InterfaceError):
            raise  # the lease expires and the execution starts again
        except InstallError as error:
            pauses.pause_run(lease.run_id, pauses.NOT_INSTALLED, f"{error}\nThen resume the run.")
            leases.give_up_one(lease)
            return Ending.GIVEN_UP
        except disk.Full as error:
            _retried(worker, hold, str(error))
            return Ending.GIVEN_UP
        except SandboxError as error:
            if worker.disk.was_full_since(began):
                _retried(worker, hold, f"{disk.Full()}: {error}")
                return Ending.GIVEN_UP
            _unresolved(worker, hold, error.code, str(error))
        except (BadTask, OSError) as error:
            if disk.is_full(error):
                worker.disk.met(error)
                _retried(worker, hold, f"{disk.Full()}: {error}")
                return Ending.GIVEN_UP
            _unresolved(worker, hold, Reason.SANDBOX_NEVER_HEALTHY, str(error))
        except Exception as error:
            log.exception("execution %s attempt %s failed", lease.execution_id, lease.attempt)
            _unresolved(worker, hold, Reason.HARNESS_NEVER_HEALTHY, f"{type(error).__name__}: {error}")
        if attempt.evaluation is not None:
            with worker.evaluating:
                evaluate_leased(worker, attempt.evaluation, hold)
        return attempt.ending


class _Attempt:
    """`evaluation`: the lease of its evaluation, when this worker is to do it."""

    def __init__(self, worker: Worker, lease: Lease, hold: Hold, evaluates: bool) -> None:
        self._worker, self._lease, self._hold, self._evaluates = worker, lease, hold, evaluates
        self.ending = Ending.OVER
        self.evaluation: Lease | None = None
        self._place = worker.place(lease.run_id, lease.execution_id, lease.attempt)
        self._driver = DRIVERS[lease.config.harness]
        self._installed: Installed | None = None
        self._began = self._started = time.monotonic()

    def run(self) -> None:
        lease, server, driver = self._lease, self._worker.harness_server, self._driver
        recipe = driver.recipe(lease.config.harness_version or driver.version)
        if recipe is not None:
            self._installed = install(recipe, self._worker.home)
            pauses.clear_not_installed(lease.run_id)
            self._started = time.monotonic()
        site = Worksite.open(lease.task_path, lease.task_digest, driver, self._worker.home, self._place)
        _remove_older_attempts(self._place, lease.execution_id)
        try:
            sandbox = self._start(site)
        except SandboxError as error:
            over = time.monotonic() >= self._started + lease.config.overall_timeout_s
            if over or self._hold.lost.is_set() or error.code is not Reason.SANDBOX_NEVER_HEALTHY:
                raise
            log.warning("execution %s: %s; one more try", lease.execution_id, error)
            sandbox = self._start(site)
        try:
            self._supervise(site, sandbox)
        finally:
            server.stop(sandbox)

    def _supervise(self, site: Worksite, sandbox: Sandbox) -> None:
        lease, worker, server = self._lease, self._worker, self._worker.harness_server
        known = {"boot": boot_id(), "pid": sandbox.pid, "start": start_ticks(sandbox.pid), "place": str(self._place)}
        if not leases.harness_started(lease, known, self._program()):
            server.stop(sandbox)
        timeout, code = self._wait(sandbox, site.task.config.agent.timeout_s)
        if self._hold.lost.is_set():
            site.workspace.remove()
            return
        if self._worker.disk.was_full_since(self._began):
            raise disk.Full
        report = site.driver.report(Ended(code, sandbox.spec.log, site.workspace.agent_logs))
        end = HarnessEnd(report.exit_code(code), timeout, report.num_malformed_calls, report.hit_turn_limit)
        here = self._evaluates and is_short(site, lease.config)
        ended = leases.harness_ended(lease, end, read_log(sandbox.spec.log), worker.owner if here else "")
        if ended is None:
            site.workspace.remove()
        elif here:
            self.evaluation = ended
        else:
            self.ending = Ending.TO_EVALUATE

    def _program(self) -> dict[str, object]:
        """Which harness this is, to be kept with the execution."""
        if self._installed is not None:
            return self._installed.record()
        return {"name": self._driver.name, "version": self._driver.version}

    def _start(self, site: Worksite) -> Sandbox:
        """Files, health check and a harness that runs in its sandbox."""
        server = self._worker.harness_server
        site.prepare(server, self._started + self._lease.config.overall_timeout_s)
        config = self._lease.config
        sandbox = server.start(
            site.harness_spec(
                self._lease.key,
                self._lease.proxy_socket or self._worker.proxy_socket,
                self._installed,
                config.policy_context_tokens or config.context_tokens,
                config.max_new_tokens,
            )
        )
        self._hold.on_lost = lambda: server.stop(sandbox)
        if self._hold.lost.is_set():
            server.stop(sandbox)
        try:
            sandbox.wait_started(self._started + self._lease.config.overall_timeout_s - time.monotonic())
        except SandboxError:
            server.stop(sandbox)
            raise
        return sandbox

    def _wait(self, sandbox: Sandbox, task_timeout_s: float | None) -> tuple[Reason | None, int]:
        """The limit that stopped the harness, if one did, and the exit code. Afterwards nothing of it runs.

        Time that the proxy held a call for scheduling, or was gone, counts in neither limit.
        """
        config = self._lease.config
        limit_s = min(config.harness_timeout_s, task_timeout_s or config.harness_timeout_s)
        harness, overall = time.monotonic() + limit_s, self._started + config.overall_timeout_s
        until, reason = min((harness, Reason.HARNESS_TIMEOUT), (overall, Reason.OVERALL_TIMEOUT))
        held_s = 0.0
        while True:
            # Held time may grow as fast as time passes: it is then read again and again, with a pause between.
            end = sandbox.wait(max(_HELD_CHECK_S if held_s else 0.0, until + held_s - time.monotonic()))
            if end is not None:
                return None, end.code
            held_s = leases.held_s(self._lease)
            if time.monotonic() >= until + held_s:
                break
        return reason, self._worker.harness_server.end(sandbox).code


def _retried(worker: Worker, hold: Hold, reason: str) -> None:
    """Nothing of the attempt counts; the execution starts again when the scheduler sees its lease expired."""
    lease = hold.lease
    shutil.rmtree(worker.place(lease.run_id, lease.execution_id, lease.attempt), ignore_errors=True)
    if not hold.lost.is_set():
        leases.give_up_one(lease, storable(reason)[:2000])


def _unresolved(worker: Worker, hold: Hold, code: Reason, reason: str) -> None:
    lease = hold.lease
    shutil.rmtree(worker.place(lease.run_id, lease.execution_id, lease.attempt), ignore_errors=True)
    if hold.lost.is_set():
        return
    verdict = Verdict(Status.UNRESOLVED, reason_code=code, reason=storable(reason)[:2000])
    leases.persistently(lambda: finish_execution(lease.execution_id, lease.attempt, verdict, HarnessEnd()))


def _remove_older_attempts(place: Path, execution_id: int) -> None:
    for older in place.parent.glob(f"{execution_id}-*"):
        if older != place:
            shutil.rmtree(older, ignore_errors=True)
