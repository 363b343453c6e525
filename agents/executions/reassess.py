"""Run the evaluator again on what an execution left, because a person asked (agents.actions.reassess_execution).

It works on a fresh copy of the files as they were when the harness had ended, under the evaluation's own time budget.
"""

from __future__ import annotations

import logging
import socket
import tarfile
import time
from datetime import timedelta
from pathlib import Path

import zstandard
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from agents.actions.reassess_execution import fail_reassessment, finish_reassessment
from agents.config import AgentSettings
from agents.core.bounds import storable
from agents.executions import disk
from agents.executions.evaluate import evaluation_of
from agents.executions.leases import brief_connection, persistently
from agents.executions.worker import Worker
from agents.harness.drivers import DRIVERS
from agents.harness.evaluator import evaluate
from agents.harness.sandbox.archive import unpack
from agents.harness.taskformat import BadTask
from agents.harness.taskformat.directory import digest
from agents.harness.worksite import Worksite
from agents.models import KeptWorkspace, Reassessment

log = logging.getLogger(__name__)

#: Beside the evaluation's own limit: unpacking, and a worker that is busy.
SLACK_S = 300.0
TASK_CHANGED = "task_changed"


def reassess_next(worker: Worker) -> bool:
    """Work on the oldest request whose files lie on this machine. False when there is none, or the disk is full."""
    if worker.disk.holds_evaluation():
        return False
    request = _lease(worker.owner)
    if request is None:
        return False
    place = worker.home / "runs" / str(request.execution.run_id) / "reassessments" / str(request.pk)
    try:
        _assess(worker, request, place)
    except (OperationalError, InterfaceError):
        raise  # the lease expires and another worker tries
    except disk.Full:
        return _retry(request)
    except (BadTask, OSError, tarfile.TarError, zstandard.ZstdError) as error:
        if disk.is_full(error):
            worker.disk.met(error)
            return _retry(request)
        _fail(request, str(error))
    except Exception as error:
        log.exception("re-assessment %s failed", request.pk)
        _fail(request, f"{type(error).__name__}: {error}")
    return True


def _assess(worker: Worker, request: Reassessment, place: Path) -> None:
    execution, task = request.execution, request.execution.group.task
    config = AgentSettings.parse(execution.run.config)
    kept = KeptWorkspace.objects.filter(execution=execution, attempt=request.attempt, deleted_at=None).first()
    if kept is None or not Path(kept.path).is_file():
        _fail(request, f"what execution {execution.pk} left is gone from {socket.gethostname()}")
        return
    site = Worksite.open(Path(task.path), digest(Path(task.path)), DRIVERS[config.harness], worker.home, place)
    began = time.monotonic()
    try:
        unpack(Path(kept.path), site.workspace)
        verdict = evaluate(worker.evaluation_server, site, evaluation_of(config))
    finally:
        site.workspace.remove()
    if worker.disk.was_full_since(began):
        raise disk.Full
    flags = (TASK_CHANGED,) if digest(Path(task.path)) != task.digest else ()
    persistently(lambda: finish_reassessment(request.pk, verdict, flags))


def _retry(request: Reassessment) -> bool:
    """Let the request be taken again, once the disk has room."""
    with brief_connection():
        Reassessment.objects.filter(pk=request.pk).update(lease_expires_at=Now())
    return False


def _fail(request: Reassessment, error: str) -> None:
    persistently(lambda: fail_reassessment(request.pk, storable(error)[:2000]))


def _lease(owner: str) -> Reassessment | None:
    free = Q(state=Reassessment.State.QUEUED) | Q(state=Reassessment.State.RUNNING, lease_expires_at__lt=Now())
    here = Q(execution__workspace__host=socket.gethostname())
    with brief_connection(), transaction.atomic():
        rows = Reassessment.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
        request = (
            rows.select_related("execution__run", "execution__group__task").filter(free & here).order_by("pk").first()
        )
        if request is None:
            return None
        budget_s = float(request.execution.run.config["evaluation_timeout_s"]) + SLACK_S
        Reassessment.objects.filter(pk=request.pk).update(
            state=Reassessment.State.RUNNING, lease_owner=owner, lease_expires_at=Now() + timedelta(seconds=budget_s)
        )
        return request
