"""The clock of the database's machine is set, or it sleeps: nobody alive is taken for dead, nobody dead lives on.

`now()` and its siblings are shadowed for this session by functions that add an offset.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from agents.actions.expire_leases import expire_leases
from agents.actions.finish_execution import finish_execution
from agents.executions import leases
from agents.models import Execution, ProxyProcess
from scheduler.cells import mark_silent_cells
from scheduler.clock import ClockWatch
from scheduler.loop import Loop
from scheduler.models import Cell
from tests.processor.records import DONE, Made, make_run, scored

pytestmark = pytest.mark.django_db
HOUR_S = 3600.0
CLOCKS = ("now", "statement_timestamp", "clock_timestamp", "transaction_timestamp")


@pytest.fixture
def set_clock() -> Iterator[Callable[[float], None]]:
    """Sets the database's clock ahead (or, negative, back) by so many seconds of the real one."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA shifted")
        cursor.execute("CREATE FUNCTION shifted.ahead() RETURNS interval LANGUAGE sql AS $$ SELECT "
                       "make_interval(secs => current_setting('gyre.ahead_s')::float) $$")  # fmt: skip
        for name in CLOCKS:
            cursor.execute(
                f"CREATE FUNCTION shifted.{name}() RETURNS timestamptz LANGUAGE sql AS "
                f"$$ SELECT pg_catalog.{name}() + shifted.ahead() $$"
            )

    def shift(ahead_s: float) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('gyre.ahead_s', %s, false)", [str(ahead_s)])
            cursor.execute("SET search_path = shifted, public, pg_catalog")

    shift(0.0)
    yield shift
    with connection.cursor() as cursor:
        cursor.execute("SET search_path = DEFAULT")


@pytest.fixture
def made() -> Made:
    """Four executions that a worker holds, a cell and a proxy that were heard of just now."""
    made = make_run()
    made.group()
    Execution.objects.update(lease_expires_at=Now() + timedelta(seconds=leases.LEASE_S))
    Cell.objects.create(run=made.run, index=0, is_core=True, role=Cell.Role.ROLLOUT, heartbeat_at=Now())
    ProxyProcess.objects.create(name="proxy-0", started_at=Now(), seen_at=Now())
    return made


@pytest.fixture
def loop() -> Loop:
    """A scheduler's loop whose own clock stands still; it has looked at the database's once."""
    return Loop(clock=lambda: 1000.0)


def seconds_left() -> list[float]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM lease_expires_at - clock_timestamp()) FROM agents_execution")
        return [float(row[0]) for row in cursor.fetchall()]


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S, 30 * 24 * HOUR_S])
def test_after_a_jump_every_worker_proxy_and_cell_has_a_fresh_window(
    made: Made, loop: Loop, set_clock: Callable[[float], None], jump_s: float
) -> None:
    loop._watch_clock(made.run)
    set_clock(jump_s)
    loop._watch_clock(made.run)
    assert expire_leases(made.run.pk) == 0
    assert mark_silent_cells(made.run.pk) == []
    assert all(leases.LEASE_S - 5 < left <= leases.LEASE_S for left in seconds_left())
    set_clock(jump_s + leases.LEASE_S + 5)  # and who is not heard of then is gone
    assert expire_leases(made.run.pk) == 4
    assert mark_silent_cells(made.run.pk) == [0]
    assert not ProxyProcess.objects.filter(seen_at__gt=Now() - timedelta(seconds=20)).exists()


def test_a_scheduler_that_starts_after_the_clock_was_set_back_waits_no_hour_for_the_dead(
    made: Made, loop: Loop, set_clock: Callable[[float], None]
) -> None:
    set_clock(-HOUR_S)
    assert all(left > HOUR_S for left in seconds_left())
    loop._watch_clock(made.run)
    assert all(left <= leases.LEASE_S for left in seconds_left())
    assert not Cell.objects.filter(heartbeat_at__gt=Now()).exists()
    assert not ProxyProcess.objects.filter(seen_at__gt=Now()).exists()


def test_a_start_leaves_leases_alone_that_are_as_they_should_be(made: Made, loop: Loop) -> None:
    Execution.objects.update(lease_expires_at=Now())
    loop._watch_clock(made.run)
    assert expire_leases(made.run.pk) == 4


def test_a_worker_that_was_taken_for_dead_over_a_jump_cannot_finish_what_started_again(
    made: Made, set_clock: Callable[[float], None]
) -> None:
    """No scheduler was there to see the jump: executions start again, and each counts once."""
    set_clock(HOUR_S)
    assert expire_leases(made.run.pk) == 4
    execution = Execution.objects.earliest("pk")
    assert not finish_execution(execution.pk, 1, scored(1.0), DONE)
    Execution.objects.filter(pk=execution.pk).update(state=Execution.State.RUNNING)
    assert finish_execution(execution.pk, 2, scored(0.5), DONE)
    made.run.refresh_from_db()
    execution.refresh_from_db()
    assert (made.run.finished, execution.attempt, execution.state) == (1, 2, Execution.State.FINISHED)
    assert [row.attempt for row in execution.assessments.all()] == [2]


def test_small_corrections_and_slow_statements_are_no_jumps() -> None:
    watch = ClockWatch()
    looks = [(0.0, 100.0), (1.0, 101.5), (2.0, 101.9), (10.0, 113.0), (11.0, 3713.0), (12.0, 3714.0), (13.0, 115.0)]
    assert [watch.jump_s(*look) for look in looks] == [0.0, 0.0, 0.0, 0.0, 3599.0, 0.0, -3600.0]
