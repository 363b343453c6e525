"""Threads of a worker: one wake takes all there is, and nothing that is queued is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from agents.executions.crew import AT_ONCE, Crew

pytestmark = pytest.mark.django_db
WAIT_S = 30


class Queue:
    """Numbers to be worked on. `looks`: how many were asked for at each look."""

    def __init__(self, count: int) -> None:
        self.waiting = list(range(count))
        self.looks: list[int] = []
        self.done: list[int] = []
        self.gate = threading.Event()
        self.all_done = threading.Event()
        self._count, self._lock = count, threading.Lock()
        self.at_once = self.most_at_once = 0

    def take(self, limit: int) -> list[int]:
        with self._lock:
            self.looks.append(limit)
            taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
            return taken

    def do(self, number: int) -> None:
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        assert self.gate.wait(WAIT_S)
        with self._lock:
            self.at_once -= 1
            self.done.append(number)
            if len(self.done) == self._count:
                self.all_done.set()


@pytest.fixture
def crews() -> Iterator[list[Crew[int]]]:
    made: list[Crew[int]] = []
    yield made
    for crew in made:
        crew.end()


def test_one_wake_has_everything_done_by_as_many_threads_as_there_are(crews: list[Crew[int]]) -> None:
    queue = Queue(3 * AT_ONCE)
    crews.append(Crew("test", 2 * AT_ONCE, queue.take, queue.do))
    crews[0].wake()
    assert queue.looks == [AT_ONCE, AT_ONCE]
    queue.gate.set()
    assert queue.all_done.wait(WAIT_S)
    assert sorted(queue.done) == list(range(3 * AT_ONCE))
    assert queue.most_at_once <= 2 * AT_ONCE


def test_a_wake_while_no_thread_is_free_is_not_lost(crews: list[Crew[int]]) -> None:
    queue = Queue(2)
    late = queue.waiting.pop()
    crews.append(Crew("test", 1, queue.take, queue.do))
    crews[0].wake()
    queue.waiting.append(late)
    crews[0].wake()
    queue.gate.set()
    assert queue.all_done.wait(WAIT_S)


def test_work_that_fails_leaves_its_thread_to_the_next(crews: list[Crew[int]]) -> None:
    queue = Queue(3)
    queue.gate.set()

    def fail_at_first(number: int) -> None:
        queue.do(number)
        if number == 0:
            raise RuntimeError("this one is lost; its lease expires")

    crews.append(Crew("test", 1, queue.take, fail_at_first))
    crews[0].wake()
    assert queue.all_done.wait(WAIT_S)


def test_a_look_that_fails_can_be_made_again(crews: list[Crew[int]]) -> None:
    queue = Queue(1)
    queue.gate.set()
    answers = iter([ConnectionError("the database is away"), None])

    def take(limit: int) -> list[int]:
        if error := next(answers, None):
            raise error
        return queue.take(limit)

    crews.append(Crew("test", 1, take, queue.do))
    with pytest.raises(ConnectionError):
        crews[0].wake()
    crews[0].wake()
    assert queue.all_done.wait(WAIT_S)


def test_after_its_end_nothing_more_is_taken(crews: list[Crew[int]]) -> None:
    queue = Queue(1)
    crews.append(Crew("test", 1, queue.take, queue.do))
    crews[0].end()
    crews[0].wake()
    assert queue.looks == []
