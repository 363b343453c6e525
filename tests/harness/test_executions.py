"""An execution from queued to finished: lease, sandbox, reference harness, proxy, verifier, outcome."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.utils import timezone

from agents.actions.import_task_set import import_task_set
from agents.executions.evaluate import evaluate_next
from agents.executions.run import run_next
from agents.executions.worker import Worker
from agents.models import Execution, Group, Run
from tests.harness.conftest import SocketBackstage
from tests.proxy.backstage import tool_text

INSTRUCTION = "Write the word apple to a.txt."
TEST = """#!/bin/bash
[ "$(cat /app/a.txt)" = apple ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""


@pytest.fixture
def task_set(tmp_path: Path) -> Path:
    task = tmp_path / "tasks" / "one"
    (task / "environment").mkdir(parents=True)
    (task / "tests").mkdir()
    (task / "task.toml").write_text('[environment]\nnetwork_mode = "no-network"\n')
    (task / "instruction.md").write_text(INSTRUCTION)
    (task / "environment" / "Dockerfile").write_text("FROM debian\nWORKDIR /app\n")
    (task / "tests" / "test.sh").write_text(TEST)
    return task.parent


def queued(stage: SocketBackstage, task_set: Path, number: int = 1, **settings: object) -> list[Execution]:
    run = stage.run(**settings)
    run.task_set = import_task_set(str(task_set))
    run.dispatched = number
    run.save()
    group = Group.objects.create(run=run, task=run.task_set.tasks.get(), number=0)
    return [
        Execution.objects.create(
            run=run, group=group, index=index, state=Execution.State.QUEUED, queued_at=timezone.now()
        )
        for index in range(number)
    ]


def test_an_execution_is_run_recorded_and_scored(stage: SocketBackstage, worker: Worker, task_set: Path) -> None:
    (execution,) = queued(stage, task_set)
    stage.engine(execution.run, tool_text("bash", command="echo apple > a.txt"), "done")
    assert run_next(worker)
    execution.refresh_from_db()
    assert execution.state == Execution.State.EVALUATING, execution.reason
    assert evaluate_next(worker)
    execution.refresh_from_db()
    run = Run.objects.get()
    assert (execution.outcome, execution.reward, execution.harness_exit) == ("complete", 1.0, 0), execution.harness_log
    assert execution.num_calls == 2
    assert (run.launched, run.finished) == (1, 1)
    assert execution.key_hash is None
    assert not any((worker.home / "runs").rglob("root"))
    assert not run_next(worker)
    assert not evaluate_next(worker)
