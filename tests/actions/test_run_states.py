"""Stop, pause, resume and cancel: what each allows, changes and records."""

import pytest
from django.db import IntegrityError, transaction

from agents import events
from agents.actions.cancel_execution import cancel_execution
from agents.actions.change_run_state import pause_run, resume_run, stop_run
from agents.actions.errors import Refused
from agents.actions.launch_run import default_project
from agents.models import Execution, Group, Run, RunEvent, Task, TaskSet
from scheduler.config import preset

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    task_set = TaskSet.objects.create(name="t", path="/nowhere", digest="0")
    config = preset("quickstart")
    return Run.objects.create(
        project=default_project(),
        task_set=task_set,
        name="t",
        state=Run.State.RUNNING,
        config=config.model_dump(mode="json"),
        seed=1,
        policy_kind=config.policy_kind,
    )


@pytest.fixture
def execution(run: Run) -> Execution:
    task = Task.objects.create(task_set=run.task_set, name="a", path="/nowhere/a", digest="0", config={})
    group = Group.objects.create(run=run, task=task, number=0)
    Run.objects.filter(pk=run.pk).update(dispatched=1)
    return Execution.objects.create(run=run, group=group, index=0)


def kinds(run: Run) -> list[str]:
    return list(RunEvent.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))


def test_pause_and_resume_leave_their_reason_in_the_log(run: Run) -> None:
    pause_run(run, user=None, reason="look at cell 1")
    resume_run(run, user=None)
    run.refresh_from_db()
    assert run.state == Run.State.STARTING
    assert kinds(run) == ["run_paused", "run_resumed"]
    assert RunEvent.objects.get(run=run, seq=1).payload["reason"] == "look at cell 1"


def test_a_finished_run_cannot_be_paused(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    with pytest.raises(Refused, match="is finished"):
        pause_run(run, user=None, reason="x")
    assert kinds(run) == []


def test_stopping_a_queued_run_ends_it_at_once(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
    assert stop_run(run, user=None, reason="wrong seed").state == Run.State.STOPPED


def test_stopping_a_running_run_asks_the_scheduler(run: Run) -> None:
    assert stop_run(run, user=None, reason="enough").state == Run.State.STOPPING


def test_cancelling_an_execution_that_never_launched_lowers_dispatched(run: Run, execution: Execution) -> None:
    cancel_execution(execution, user=None, reason="not needed")
    run.refresh_from_db()
    assert (run.dispatched, run.launched, run.finished) == (0, 0, 0)


def test_the_database_refuses_more_finished_than_launched(run: Run) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(dispatched=2, launched=1, finished=2)


def test_event_numbers_have_no_gaps_even_after_a_rollback(run: Run) -> None:
    events.record(run.pk, events.EventKind.RUN_STARTED)
    before = transaction.savepoint()
    events.record(run.pk, events.EventKind.RUN_PAUSED)
    transaction.savepoint_rollback(before)
    events.record(run.pk, events.EventKind.RUN_RESUMED)
    assert list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True)) == [1, 2]
