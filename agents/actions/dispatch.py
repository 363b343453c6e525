"""Dispatch groups: their rows exist from here on, and their executions are owed (docs/algorithms.md §9)."""

from django.db import transaction
from django.db.models import F

from agents import events
from agents.core.task_order import by_kind, evaluation_tasks, training_task
from agents.models import Execution, Group, Run, Task


def dispatch_training_groups(run: Run, *, num_groups: int, executions_per_group: int, burst: int) -> list[Group]:
    """Raise `dispatched` by groups x executions. Tasks follow from the run's seed and dispatch cursor."""
    with transaction.atomic():
        kinds = _kinds(run, Task.Split.TRAIN)
        cursor = Run.objects.values_list("dispatch_cursor", flat=True).get(pk=run.pk)
        groups = Group.objects.bulk_create(
            Group(
                run=run,
                task_id=training_task(kinds, run.seed, number),
                kind=Group.Kind.TRAINING,
                number=number,
                burst=burst,
            )
            for number in range(cursor, cursor + num_groups)
        )
        _owe(run, groups, executions_per_group)
        Run.objects.filter(pk=run.pk).update(
            dispatched=F("dispatched") + num_groups * executions_per_group, dispatch_cursor=cursor + num_groups
        )
        _record(run, groups, executions_per_group)
    return groups


def dispatch_evaluation_groups(run: Run, *, evaluation: int, num_tasks: int) -> list[Group]:
    """One execution on each of a fixed set of held-out tasks; outside D, L and F."""
    with transaction.atomic():
        tasks = evaluation_tasks(_kinds(run, Task.Split.HELDOUT), num_tasks)
        first = Group.objects.filter(run=run, kind=Group.Kind.EVALUATION).count()
        groups = Group.objects.bulk_create(
            Group(run=run, task_id=task_id, kind=Group.Kind.EVALUATION, number=first + place, evaluation=evaluation)
            for place, task_id in enumerate(tasks)
        )
        _owe(run, groups, 1)
        _record(run, groups, 1)
    return groups


def _kinds(run: Run, split: str) -> list[list[int]]:
    tasks = Task.objects.filter(task_set=run.task_set_id, split=split).order_by("name")
    return by_kind(list(tasks.values_list("pk", "kind")))


def _owe(run: Run, groups: list[Group], executions_per_group: int) -> None:
    Execution.objects.bulk_create(
        Execution(run=run, group=group, index=index) for group in groups for index in range(executions_per_group)
    )


def _record(run: Run, groups: list[Group], executions_per_group: int) -> None:
    events.record_all(
        run.pk,
        [
            (
                events.EventKind.GROUP_DISPATCHED,
                {
                    "group": group.pk,
                    "number": group.number,
                    "kind": group.kind,
                    "task": group.task_id,
                    "burst": group.burst,
                    "evaluation": group.evaluation,
                    "num_executions": executions_per_group,
                },
            )
            for group in groups
        ],
    )
