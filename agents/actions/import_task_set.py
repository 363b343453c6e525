"""Import a directory of tasks: all are read, and what cannot be honoured is refused, before a row is made."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from django.db import transaction

from agents.harness.taskformat import BadTask, ParsedTask, load_task
from agents.harness.taskformat.directory import digest
from agents.harness.taskformat.local import plan
from agents.models import Task, TaskSet

BUNDLED = Path(__file__).resolve().parents[1] / "tasksets"
_SHOWN = 5


class BadTaskSet(ValueError):
    """A task set that is missing or broken; the message names the files, lines and reasons."""


def import_task_set(name_or_path: str) -> TaskSet:
    """The TaskSet of a bundled name or of a directory; the same row as before if the content is the same.

    Layout: `<set>/{train,heldout}/<task>/`, or tasks directly below, which are then all for training.
    Raises BadTaskSet.
    """
    folder = _find(name_or_path)
    found = [(split, path, digest(path)) for split, path in _task_folders(folder)]
    if not found:
        raise BadTaskSet(f"{folder} holds no task: no directory with a task.toml below it, train/ or heldout/")
    names = [path.name for _, path, _ in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadTaskSet(f"{folder}: the task names {', '.join(sorted(twice))} are in train/ and in heldout/")
    total = hashlib.sha256("\n".join(f"{split} {path.name} {sha}" for split, path, sha in found).encode()).hexdigest()
    name = _slug(folder.name)
    known = TaskSet.objects.filter(name=name, digest=total, path=str(folder)).first()
    if known:
        return known
    tasks = _load_all(folder, [path for _, path, _ in found])
    with transaction.atomic():
        task_set, is_new = TaskSet.objects.update_or_create(name=name, digest=total, defaults={"path": str(folder)})
        rows = [
            Task(
                task_set=task_set,
                name=path.name,
                split=split,
                kind=str(task.config.metadata.get("kind", ""))[:40],
                path=str(path),
                digest=sha,
                config=task.config.as_json(),
            )
            for (split, path, sha), task in zip(found, tasks, strict=True)
        ]
        if is_new:
            Task.objects.bulk_create(rows)
        else:  # the same content at another place, or known in part and without files, from the export of a run
            by_name = _of_this_content(task_set, rows)
            for row in rows:
                if task := by_name.get(row.name):
                    task.path, task.config = row.path, row.config
            Task.objects.bulk_create(row for row in rows if row.name not in by_name)
            Task.objects.bulk_update(by_name.values(), ["path", "config"])
    return task_set


def _of_this_content(task_set: TaskSet, rows: list[Task]) -> dict[str, Task]:
    """Tasks of the set by name. Those that are not of its content, from an export that was not what it said, are put
    into a set of their own, so that no run ever takes them."""
    content = {(row.name, row.split, row.digest) for row in rows}
    found = list(task_set.tasks.all())
    foreign = [task for task in found if (task.name, task.split, task.digest) not in content]
    if foreign:
        apart = hashlib.sha256(f"not of {task_set.digest}".encode()).hexdigest()
        other, _ = TaskSet.objects.get_or_create(name=task_set.name, digest=apart, defaults={"path": ""})
        for task in foreign:
            task.task_set = other
            task.name = f"{task.name[:100]}#{task.pk}"
        Task.objects.bulk_update(foreign, ["task_set", "name"])
    return {task.name: task for task in found if task not in foreign}


def _find(name_or_path: str) -> Path:
    if re.fullmatch(r"[\w-]+", name_or_path) and (BUNDLED / name_or_path).is_dir():
        return BUNDLED / name_or_path
    folder = Path(name_or_path).expanduser()
    if not name_or_path or not folder.is_dir():
        bundled = sorted(path.name for path in BUNDLED.iterdir() if any(_task_folders(path)))
        raise BadTaskSet(
            f"task set {name_or_path!r} is neither a directory nor a bundled set ({', '.join(bundled) or 'none'})"
        )
    return folder.resolve()


def _task_folders(folder: Path) -> Iterator[tuple[str, Path]]:
    splits = [split for split in (Task.Split.TRAIN, Task.Split.HELDOUT) if (folder / split).is_dir()]
    places = [(split, folder / split) for split in splits] or [(Task.Split.TRAIN, folder)]
    for split, place in places:
        if not place.is_dir():
            continue
        for path in sorted(place.iterdir()):
            if path.is_dir() and (splits or (path / "task.toml").is_file()):
                yield split.value, path


def _load_all(folder: Path, paths: list[Path]) -> list[ParsedTask]:
    tasks, problems = [], []
    for path in paths:
        try:
            task = load_task(path)
            plan(task)
            tasks.append(task)
        except BadTask as problem:
            problems.append(str(problem))
    if problems:
        more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
        raise BadTaskSet(f"task set {folder} cannot be used: {'; '.join(problems[:_SHOWN])}{more}")
    return tasks


def _slug(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name).strip("-").lower()[:64] or "tasks"
