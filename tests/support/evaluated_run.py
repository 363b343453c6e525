"""Test support: a finished run with two evaluations whose executions are there."""

from __future__ import annotations

from agents.models import Execution, Group, Run, Task
from scheduler.models import Evaluation


def evaluate(run: Run) -> None:
    """The run is finished, with the held-out rewards 0, 0, 0, 1 at first and 0, 1, 1, 1 at last, of the same tasks."""
    Evaluation.objects.filter(run=run).delete()
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    tasks = Task.objects.filter(task_set=run.task_set, split="heldout").order_by("pk")[:4]
    for number, (version, rewards) in enumerate([(0, [0, 0, 0, 1]), (run.version, [0, 1, 1, 1])], start=1):
        Evaluation.objects.create(
            run=run, number=number, version=version, state="finished", num_tasks=4, num_scored=4,
            reward_mean=sum(rewards) / 4,
        )  # fmt: skip
        for index, (task, reward) in enumerate(zip(tasks, rewards, strict=True)):
            group = Group.objects.create(
                run=run, task=task, kind="evaluation", number=number * 1000 + index, evaluation=number
            )
            Execution.objects.create(
                run=run, group=group, index=0, state="finished", outcome="complete", reward=float(reward)
            )
