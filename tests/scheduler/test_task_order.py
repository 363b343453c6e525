"""Which task a group gets follows from seed and cursor alone; consecutive groups hold one task of each kind."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agents.core.task_order import by_kind, evaluation_tasks, training_task

KINDS = by_kind([(n, "abcdefgh"[n % 8]) for n in range(200)])


def test_eight_consecutive_groups_hold_one_task_of_each_of_eight_kinds() -> None:
    for start in range(0, 400, 8):
        tasks = [training_task(KINDS, 1, cursor) for cursor in range(start, start + 8)]
        assert Counter(task % 8 for task in tasks) == dict.fromkeys(range(8), 1)


@given(st.integers(0, 10**6))
def test_one_pass_takes_every_task_once(seed: int) -> None:
    assert sorted(training_task(KINDS, seed, cursor) for cursor in range(200)) == list(range(200))


def test_passes_and_seeds_differ() -> None:
    first = [training_task(KINDS, 1, cursor) for cursor in range(200)]
    assert first != [training_task(KINDS, 1, cursor) for cursor in range(200, 400)]
    assert first != [training_task(KINDS, 2, cursor) for cursor in range(200)]
    assert first == [training_task(KINDS, 1, cursor) for cursor in range(200)]


def test_kinds_of_unequal_size_take_equal_turns() -> None:
    kinds = [[1, 2, 3], [9]]
    assert [training_task(kinds, 1, cursor) for cursor in (1, 3, 5, 7)] == [9, 9, 9, 9]


def test_the_evaluation_set_is_fixed_and_balanced() -> None:
    chosen = evaluation_tasks(KINDS, 64)
    assert chosen == evaluation_tasks(KINDS, 64)
    assert Counter(task % 8 for task in chosen) == dict.fromkeys(range(8), 8)
    assert evaluation_tasks([[1, 2], [3]], 10) == [1, 3, 2]
