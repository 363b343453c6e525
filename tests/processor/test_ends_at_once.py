"""Executions that finish, are cancelled or lose their lease at the same moment: each ends once.

See docs/reliability.md.
"""

import threading
from collections.abc import Callable

import pytest
from django.db import connection
from records import DONE, Made, make_run, record_conversation, scored

from agents.actions.cancel_execution import cancel_execution
from agents.actions.errors import Refused
from agents.actions.finish_execution import finish_execution
from agents.invariants import INVARIANTS
from agents.models import Execution, Group, Run, RunEvent

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(actions: list[Callable[[], object]]) -> list[BaseException]:
    """Run every action in a thread of its own, all released together; returns what they raised."""
    start, failures = threading.Barrier(len(actions)), []

    def act(action: Callable[[], object]) -> None:
        try:
            start.wait(30)
            action()
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return failures


def recorded(made: Made, count: int) -> Group:
    group = made.group(count)
    for execution in group.executions.all():
        record_conversation(execution)
    return group


def finish(execution: Execution) -> Callable[[], object]:
    return lambda: finish_execution(execution.pk, execution.attempt, scored(1.0), DONE)


def cancel(execution: Execution) -> Callable[[], object]:
    return lambda: cancel_execution(execution, user=None, reason="a person stopped it")


def assert_lawful(run: Run) -> None:
    assert {law.name: rows for law in INVARIANTS if (rows := law.broken_by(run.pk))} == {}


def test_executions_that_finish_at_once_close_their_group_exactly_once() -> None:
    made = make_run()
    group = recorded(made, 6)
    assert at_once([finish(execution) for execution in group.executions.all()]) == []
    group.refresh_from_db()
    assert (group.state, group.num_votes, Run.objects.get().finished) == ("ready", 6, 6)
    assert RunEvent.objects.filter(kind="group_ready").count() == 1
    assert_lawful(made.run)


def test_finishing_and_cancelling_siblings_at_once_neither_deadlocks_nor_loses_one() -> None:
    made = make_run()
    groups = [recorded(made, 4) for _ in range(2)]
    actions = [
        (cancel if execution.index % 2 else finish)(execution)
        for group in groups
        for execution in group.executions.all()
    ]
    assert at_once(actions) == []
    for group in groups:
        group.refresh_from_db()
        assert (group.state, group.num_votes) == ("ready", 2)
    assert_lawful(made.run)


def test_an_execution_that_is_finished_twice_and_cancelled_at_once_ends_once() -> None:
    made = make_run()
    group = recorded(made, 3)
    executions = list(group.executions.all())
    failures = at_once([act(e) for e in executions for act in (finish, finish, cancel)])
    assert all(isinstance(failure, Refused) for failure in failures)
    assert Run.objects.get().finished == 3
    assert RunEvent.objects.filter(kind="execution_finished").count() == 3
    group.refresh_from_db()
    assert group.state in ("ready", "void")
    assert_lawful(made.run)
