"""Import a directory of tasks: all are read, and what cannot be honoured is refused, before a row is made."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.db import transaction

from agents.harness.taskformat import BadTask, ParsedTask, load_task
from agents.harness.taskformat.directory import digest
from agents.harness.taskformat.local import plan
from agents.models import Task, TaskSet
from agents.tasksets import bundled

log = logging.getLogger(__name__)

_SHOWN = 5


class BadTaskSet(ValueError):
    """A task set that is missing or broken; the message names the files, lines and reasons."""

    def __init__(self, message: str) -> None:
        super().__init__(message.encode(errors="backslashreplace").decode())  # file names are any bytes


def import_task_set(name_or_path: str) -> TaskSet:
    """The TaskSet of a bundled name or of a directory; the same row as before if the content is the same.

    Layout: `<set>/{train,heldout}/<task>/`, or tasks directly below, which are then all for training.
    Raises BadTaskSet.
    """
    folder = _find(name_or_path)
    places = _all_places(folder)
    if not places:
        raise BadTaskSet(f"{folder} holds no task: no directory with a task.toml below it, train/ or heldout/")
    names = [path.name for _, path in places]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadTaskSet(f"{folder}: the task names {', '.join(sorted(twice))} are in train/ and in heldout/")
    read = _read_all(folder, [path for _, path in places])
    found = [(split, path, each.digest) for (split, path), each in zip(places, read, strict=True)]
    tasks = [each.task for each in read]
    total = bundled.set_digest((split, path.name, sha) for split, path, sha in found)
    name = _slug(folder.name)
    known = TaskSet.objects.filter(name=name, digest=total, path=str(folder)).first()
    if known:
        return known
    _tell(folder, [warning for each in read for warning in each.warnings])
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
    try:
        if name_or_path in bundled.NAMES:
            return bundled.provide_quickstart()
        folder = Path(name_or_path).expanduser()
        if name_or_path and folder.is_dir():
            str(folder.resolve()).encode()
            return folder.resolve()
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        raise BadTaskSet(f"task set {name_or_path!r} cannot be read: {error}") from error
    raise BadTaskSet(f"task set {name_or_path!r} is neither a directory nor a bundled set ({', '.join(bundled.NAMES)})")


def _all_places(folder: Path) -> list[tuple[str, Path]]:
    try:
        return list(_task_folders(folder))
    except OSError as error:
        raise BadTaskSet(f"task set {folder} cannot be read: {error}") from error


def _task_folders(folder: Path) -> Iterator[tuple[str, Path]]:
    splits = [split for split in (Task.Split.TRAIN, Task.Split.HELDOUT) if (folder / split).is_dir()]
    places = [(split, folder / split) for split in splits] or [(Task.Split.TRAIN, folder)]
    for split, place in places:
        if not place.is_dir():
            continue
        for path in sorted(place.iterdir()):
            if path.is_dir() and (splits or (path / "task.toml").is_file()):
                yield str(split), path


@dataclass(frozen=True)
class _Read:
    task: ParsedTask
    digest: str
    warnings: tuple[str, ...]


def _tell(folder: Path, warnings: list[str]) -> None:
    """Say once per set what is read otherwise than in a container: each thing with the first place that has it."""
    first: dict[str, str] = {}
    for warning in warnings:
        where, _, what = warning.partition(": ")
        first.setdefault(what, where)
    for what, where in list(first.items())[:_SHOWN]:
        log.warning("task set %s: %s (%s)", folder.name, what, where)
    if len(first) > _SHOWN:
        log.warning("task set %s: and %d more warnings", folder.name, len(first) - _SHOWN)


def _read_all(folder: Path, paths: list[Path]) -> list[_Read]:
    """Each task, and the digest of its files. Raises BadTaskSet with what is wrong, task by task."""
    found, problems = [], []
    for path in paths:
        try:
            task = load_task(path)
            image = plan(task)
            found.append(_Read(task, digest(path), (*task.warnings, *image.warnings)))
        except BadTask as problem:
            problems.append(str(problem))
        except OSError as error:
            file = str(error.filename or path)
            shown = path.name + file.removeprefix(str(path)) if file.startswith(str(path)) else path.name
            problems.append(f"{shown}: cannot be read: {error.strerror}")
        except Exception as error:  # a task is other people's data: no way to break must hide which one it is
            problems.append(f"{path.name}: cannot be read: {type(error).__name__}: {str(error)[:200]}")
    if problems:
        more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
        raise BadTaskSet(f"task set {folder} cannot be used: {'; '.join(problems[:_SHOWN])}{more}")
    return found


def _slug(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name).strip("-").lower()[:64] or "tasks"
