"""A task set and queued executions for tests of workers."""

from __future__ import annotations

from pathlib import Path

from django.utils import timezone

from agents.actions.import_task_set import import_task_set
from agents.models import Execution, Group
from tests.proxy.backstage import Backstage

INSTRUCTION = "Write the word apple to a.txt."
TEST = """#!/bin/bash
if [ "$(cat /app/a.txt)" = apple ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def write_task(
    folder: Path, settings: str = "", test: str = TEST, name: str = "one", instruction: str = INSTRUCTION
) -> Path:
    """A task that wants the word apple in a.txt; returns the set's folder."""
    task = folder / name
    for part in ("environment", "tests"):
        (task / part).mkdir(parents=True)
    (task / "task.toml").write_text(settings + '\n[environment]\nnetwork_mode = "no-network"\n')
    (task / "instruction.md").write_text(instruction)
    (task / "environment" / "Dockerfile").write_text("FROM debian\nWORKDIR /app\n")
    (task / "tests" / "test.sh").write_text(test)
    return folder


def queue(stage: Backstage, task_set: Path, number: int = 1, **settings: object) -> list[Execution]:
    """Executions of one group of a fresh run, allowed to start."""
    run = stage.run(**settings)
    run.task_set, run.dispatched = import_task_set(str(task_set)), number
    run.save()
    group = Group.objects.create(run=run, task=run.task_set.tasks.get(), number=0)
    now = timezone.now()
    rows = (Execution(run=run, group=group, index=index, queued_at=now) for index in range(number))
    made = Execution.objects.bulk_create(rows)
    Execution.objects.update(state=Execution.State.QUEUED)
    return made
