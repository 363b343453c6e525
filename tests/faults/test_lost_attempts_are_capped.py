"""An execution that ends its workers or evaluators is unresolved after `max_attempts`; one given up in order is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from agents.actions.expire_leases import expire_leases
from agents.executions import leases
from agents.models import Execution, Group, Run, RunEvent
from tests.processor.records import Made, make_run

pytestmark = pytest.mark.django_db(transaction=True)

#: Takes the oldest execution and dies as the kernel kills what takes too much memory.
DIES = """
import django, os, signal
django.setup()
from agents.executions import leases
assert leases.lease_evaluations("w", 1) if {evaluate} else leases.lease_queued("w", 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def queued(**settings: object) -> Made:
    made = make_run(**settings)
    made.group(1)
    Run.objects.update(launched=0)
    Execution.objects.update(state="queued", queued_at=Now(), key_hash=None, lease_owner="")
    return made


def lose(made: Made, *, evaluate: bool = False) -> Execution:
    """A worker process takes the execution and is killed; its lease runs out."""
    died = subprocess.run([sys.executable, "-c", DIES.format(evaluate=evaluate)], env=dict(os.environ), timeout=60)
    assert died.returncode == -signal.SIGKILL
    Execution.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    expire_leases(made.run.pk)
    return Execution.objects.get()


def test_an_execution_that_kills_its_workers_is_unresolved_after_max_attempts() -> None:
    made = queued(max_attempts=2)
    execution = lose(made)
    assert (execution.state, execution.attempt, execution.lost_attempts) == ("queued", 2, 1)
    execution = lose(made)
    assert (execution.state, execution.outcome, execution.reason_code) == (
        "finished", "unresolved", "attempts_exhausted",
    )  # fmt: skip
    assert "its worker was lost, 2 times in all, which max_attempts allows no more of" in execution.reason
    assert Group.objects.get().state == "void"
    assert leases.lease_queued("w", 1) == []
    kinds = RunEvent.objects.order_by("seq").values_list("kind", flat=True)
    assert list(kinds).count("execution_retried") == 1
    assert expire_leases(made.run.pk) == 0


def test_an_execution_that_kills_its_evaluators_is_unresolved_too_and_keeps_its_attempt() -> None:
    made = queued(max_attempts=2)
    Run.objects.update(launched=1)
    Execution.objects.update(state="evaluating", harness_ended_at=Now())
    execution = lose(made, evaluate=True)
    assert (execution.state, execution.attempt, execution.lease_owner) == ("evaluating", 1, "")
    execution = lose(made, evaluate=True)
    assert (execution.state, execution.attempt, execution.reason_code) == ("finished", 1, "attempts_exhausted")


def test_an_attempt_that_a_worker_gave_up_in_order_does_not_count() -> None:
    made = queued(max_attempts=1)
    for attempt in (1, 2, 3):
        [lease] = leases.lease_queued("w", 1)
        if attempt == 2:
            leases.give_up_one(lease)
        else:
            leases.give_up("w")
        assert expire_leases(made.run.pk) == 1
    execution = Execution.objects.get()
    assert (execution.state, execution.attempt, execution.lost_attempts) == ("queued", 4, 0)
