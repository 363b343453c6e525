"""Generate the bundled `quickstart` task set, and tell which texts are kept out of training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from agents.tasksets.harbor import write_task
from agents.tasksets.kinds import KINDS, Task, make_task

SEED = 2026
TRAIN_PER_KIND = 25
HELDOUT_PER_KIND = 8
#: Not in the repository: see `bundled`.
FOLDER = Path(__file__).resolve().parent / "quickstart"


def heldout_tasks(seed: int = SEED, per_kind: int = HELDOUT_PER_KIND) -> list[Task]:
    """The fixed evaluation tasks, kinds in turn. Their texts occur in no training task and no demonstration."""
    return _distinct(Random(f"heldout {seed}"), len(KINDS) * per_kind, set())


def train_tasks(seed: int = SEED, per_kind: int = TRAIN_PER_KIND) -> list[Task]:
    """Training tasks, kinds in turn: any eight in a row from a multiple of eight hold every kind once."""
    return _distinct(Random(f"train {seed}"), len(KINDS) * per_kind, heldout_texts(seed))


def heldout_texts(seed: int = SEED) -> set[str]:
    """Instructions and delegated jobs of the evaluation tasks."""
    return set().union(*map(_texts, heldout_tasks(seed)))


def demonstration_tasks(rng: Random, weights: dict[str, int], seed: int = SEED) -> Iterator[Task]:
    """An endless stream of tasks to demonstrate, kinds in proportion to `weights`, held-out texts left out."""
    kinds = [kind for kind, weight in weights.items() for _ in range(weight)]
    kept_out = heldout_texts(seed)
    while True:
        for kind in kinds:
            yield _draw(kind, rng, kept_out)


def write_quickstart(folder: Path, seed: int = SEED) -> int:
    """Write the generated set as `folder`, which must not exist; returns how many tasks it holds."""
    splits = {"train": train_tasks(seed), "heldout": heldout_tasks(seed)}
    for split, tasks in splits.items():
        for number, task in enumerate(tasks, start=1):
            write_task(task, folder / split / f"{split[0]}{number:03d}-{task.kind}", split)
    return sum(map(len, splits.values()))


def _texts(task: Task) -> set[str]:
    return {task.text, *(step.job for step in task.steps if hasattr(step, "job"))}


def _draw(kind: str, rng: Random, kept_out: set[str]) -> Task:
    while True:
        task = make_task(kind, rng)
        if kept_out.isdisjoint(_texts(task)):
            return task


def _distinct(rng: Random, count: int, kept_out: set[str]) -> list[Task]:
    tasks: list[Task] = []
    for number in range(count):
        task = _draw(KINDS[number % len(KINDS)], rng, kept_out)
        kept_out = kept_out | _texts(task)
        tasks.append(task)
    return tasks
