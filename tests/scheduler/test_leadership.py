"""One scheduler leads by a database lock; another takes over; both survive a database that goes away for a moment."""

import os
import threading
from collections.abc import Callable

import psycopg
import pytest
from django.db import connection

from scheduler import loop as loop_module
from scheduler.loop import LEADER_LOCK, run_forever


class Ticks:
    """Stands where Loop stands: tells who ticks."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.happened = threading.Condition()

    def make(self) -> "Ticks":
        return self

    def tick(self) -> None:
        with self.happened:
            self.threads.append(threading.get_ident())
            self.happened.notify_all()

    num_failures = 0

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        with self.happened:
            return self.happened.wait_for(condition, timeout=30)


class Scheduler:
    def __init__(self) -> None:
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            run_forever(self.stop.is_set, lambda seconds: self.stop.wait(min(seconds, 0.05)))
        finally:
            connection.close()

    def end(self) -> None:
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture
def ticks(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Ticks:
    made = Ticks()
    monkeypatch.setattr(loop_module, "Loop", made.make)
    return made


def test_only_one_of_two_schedulers_leads_and_the_other_takes_over(ticks: Ticks) -> None:
    first = Scheduler()
    assert ticks.wait_for(lambda: len(ticks.threads) > 3)
    second = Scheduler()
    assert ticks.wait_for(lambda: len(ticks.threads) > 20)
    assert set(ticks.threads) == {first.thread.ident}
    first.end()
    assert ticks.wait_for(lambda: second.thread.ident in ticks.threads)
    second.end()


def test_a_leader_whose_connection_is_cut_leads_again(ticks: Ticks) -> None:
    scheduler = Scheduler()
    assert ticks.wait_for(lambda: len(ticks.threads) > 3)
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as other:
        cut = other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            [LEADER_LOCK],
        ).fetchall()
    assert cut == [(True,)]
    before = len(ticks.threads)
    assert ticks.wait_for(lambda: len(ticks.threads) > before + 3)
    scheduler.end()
