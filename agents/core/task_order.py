"""Which task a group gets: a pure function of the run's seed and of how many groups were dispatched before it.

Kinds take turns, so that consecutive groups hold one task of each kind (quickstart trains on one of each per batch);
inside a kind the order is shuffled, anew for every pass over the kind's tasks.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from random import Random


def by_kind(tasks: Sequence[tuple[int, str]]) -> list[list[int]]:
    """(task id, kind) pairs to one list of ids per kind, kinds by name, ids in the given order."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for task_id, kind in tasks:
        kinds[kind].append(task_id)
    return [kinds[kind] for kind in sorted(kinds)]


def training_task(kinds: Sequence[Sequence[int]], seed: int, cursor: int) -> int:
    """The task of the group number `cursor` (0, 1, …). `kinds` holds at least one task."""
    turn, kind = divmod(cursor, len(kinds))
    tasks = kinds[kind]
    num_passes, place = divmod(turn, len(tasks))
    return _shuffled(tasks, seed, kind, num_passes)[place]


def evaluation_tasks(kinds: Sequence[Sequence[int]], count: int) -> list[int]:
    """A fixed set of at most `count` tasks, kinds in turn: the same for every run, seed and version."""
    longest = max((len(tasks) for tasks in kinds), default=0)
    in_turn = [tasks[place] for place in range(longest) for tasks in kinds if place < len(tasks)]
    return in_turn[:count]


def _shuffled(tasks: Sequence[int], seed: int, kind: int, num_passes: int) -> list[int]:
    order = list(tasks)
    digest = hashlib.sha256(f"task-order:{seed}:{kind}:{num_passes}".encode()).digest()
    Random(int.from_bytes(digest[:8], "big")).shuffle(order)
    return order
