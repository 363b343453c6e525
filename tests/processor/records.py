"""Rows for tests of the trajectory processor: a run with groups, executions in flight, and recorded calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from django.utils import timezone

from agents.core.codec import CallDelta, encode_call
from agents.core.outcome import HarnessEnd, Status, Verdict
from agents.core.roles import Role
from agents.models import Call, Execution, Group, Project, Run, Task, TaskSet
from scheduler.config import preset
from trainers.models import Batch

DONE = HarnessEnd(exit_code=0)


@dataclass
class Made:
    """A run under construction."""

    run: Run
    task: Task
    groups: list[Group] = field(default_factory=list)

    def group(self, executions: int = 4, kind: str = Group.Kind.TRAINING, burst: int = 1) -> Group:
        """A group whose executions are all running."""
        group = Group.objects.create(
            run=self.run,
            task=self.task,
            kind=kind,
            number=len(self.groups),
            burst=burst if kind == "training" else None,
        )
        self.groups.append(group)
        Execution.objects.bulk_create(
            Execution(
                run=self.run,
                group=group,
                index=index,
                state=Execution.State.RUNNING,
                key_hash=bytes([len(self.groups), index]) * 16,
                lease_owner="worker",
                launched_at=timezone.now(),
            )
            for index in range(executions)
        )
        if kind == Group.Kind.TRAINING:
            self.run.dispatched += executions
            self.run.launched += executions
            self.run.save(update_fields=["dispatched", "launched"])
        return group

    def batch(self, number: int = 1, version: int = 0, burst: int = 1) -> Batch:
        return Batch.objects.create(run=self.run, number=number, burst=burst, version=version)


def make_run(**settings: object) -> Made:
    """A running `quickstart` run with `settings` on top."""
    project, _ = Project.objects.get_or_create(slug="lab", name="Lab")
    task_set, _ = TaskSet.objects.get_or_create(name="quickstart", path="/nowhere", digest="0" * 64)
    task, _ = Task.objects.get_or_create(task_set=task_set, name="0001-write", path="/nowhere", digest="0", config={})
    config = preset("quickstart", **settings).model_dump(mode="json")
    run = Run.objects.create(
        project=project,
        task_set=task_set,
        name="quickstart",
        state=Run.State.RUNNING,
        config=config,
        seed=config["seed"],
        policy_kind=config["policy_kind"],
    )
    return Made(run, task)


def record(
    execution: Execution,
    number: int,
    new_input: Sequence[int],
    output: Sequence[int],
    *,
    parent: int | None = None,
    prefix: int = 0,
    role: str = Role.MAIN,
    state: str = Call.State.COMPLETE,
    version: int = 0,
    logprobs: Sequence[float] | None = None,
    attempt: int | None = None,
) -> Call:
    """One recorded call."""
    delta = CallDelta(
        np.array(new_input, np.int32),
        np.array(output, np.int32),
        np.array([-0.5] * len(output) if logprobs is None else logprobs, np.float32),
    )
    return Call.objects.create(
        execution=execution,
        attempt=attempt or execution.attempt,
        number=number,
        parent_number=parent,
        prefix_tokens=prefix,
        input_tokens=prefix + len(new_input),
        output_tokens=len(output),
        tokens=encode_call(delta),
        state=state,
        dialect="openai-chat",
        role=role,
        versions=[[version, 0, len(output)]],
        started_at=timezone.now(),
    )


def record_conversation(execution: Execution, num_calls: int = 3, version: int = 0, start: int = 100) -> None:
    """A main conversation: each call extends the one before by two ids and samples three."""
    record(execution, 0, range(start, start + 20), [1, 2, 3], version=version)
    for number in range(1, num_calls):
        prefix = 20 + 3 * number + 2 * (number - 1)
        record(execution, number, [7, 8], [number, 5, 6], parent=number - 1, prefix=prefix, version=version)


def scored(value: float) -> Verdict:
    return Verdict(Status.SCORED, value, rewards={"reward": value}, exit_code=0, duration_s=0.1)
