"""A run made of an export: its groups, executions, calls, trees, draws and trajectories as rows again.

The run is marked as imported and never goes on. All or nothing, in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.db import DataError, IntegrityError, transaction

from agents import events
from agents.actions.finish_execution import write_nodes
from agents.core.codec import CallDelta, encode_call
from agents.exports.checking import BadRow, Checker
from agents.exports.folder import BadExport, load, table_rows
from agents.exports.tables import ASSESSMENTS, CALLS, DRAWS, EXECUTIONS, GROUPS, SELECTION, TASKS, TRAJECTORIES, Table
from agents.models import (
    Assessment,
    Call,
    Draw,
    Execution,
    Group,
    Project,
    Reassessment,
    Run,
    SelectionRecord,
    Task,
    TaskSet,
    Trajectory,
)
from agents.recorded import folded
from agents.whole_config import parse

CHUNK_ROWS = 500
#: What stands for a record of tokens that the exporter could not read either.
UNREADABLE = b"\x00"

Row = dict[str, Any]
Key = tuple[str, int, int]
Progress = Callable[[int, int], None]


def import_export(folder: Path, *, project: Project, name: str = "", progress: Progress | None = None) -> Run:
    """Raises BadExport (agents.exports.folder) when the directory is not a whole export; nothing is written then.

    Everything in it is read and checked before the first row is written. What the database refuses all the same, say a
    file that changes meanwhile, undoes the whole import.
    """
    manifest = load(folder)
    _check(folder, manifest)
    try:
        return _write(folder, manifest, project, name, progress or (lambda done, total: None))
    except (DataError, IntegrityError, LookupError, TypeError, ValueError, OverflowError) as error:
        why = str(error).partition("\n")[0]
        raise BadExport(f"{folder} cannot be imported: {type(error).__name__}: {why}") from error


def _check(folder: Path, manifest: Row) -> None:
    checker = Checker()
    for table in (TASKS, GROUPS, EXECUTIONS, ASSESSMENTS, CALLS, DRAWS, TRAJECTORIES):
        for number, row in enumerate(table_rows(folder, manifest, table.name), start=1):
            try:
                checker.check(table, row)
            except BadRow as error:
                raise BadExport(f"{folder}: row {number} of {table.name}: {error}") from error


def _write(folder: Path, manifest: Row, project: Project, name: str, progress: Progress) -> Run:
    with transaction.atomic():
        made = _Import(folder, manifest, _run(manifest, project, name), progress)
        made.groups()
        made.executions()
        made.assessments()
        made.calls()
        made.selection()
        made.close()
    return made.run


def _run(manifest: Row, project: Project, name: str) -> Run:
    facts = manifest["run"]
    over = (Run.State.FINISHED, Run.State.STOPPED)
    source = f"{manifest['source']}, exported {manifest['finished_at'][:16].replace('T', ' ')} UTC"
    identity = {key: facts["task_set"][key] for key in ("name", "digest")}
    task_set, _ = TaskSet.objects.get_or_create(**identity, defaults={"path": ""})
    run = Run.objects.create(
        project=project,
        task_set=task_set,
        name=name or facts["name"],
        preset=facts["preset"],
        state=facts["state"] if facts["state"] in over else Run.State.STOPPED,
        state_reason=facts["state_reason"],
        config=parse(facts["config"]).model_dump(mode="json"),
        config_version=facts["config_version"],
        seed=facts["seed"],
        policy_kind=facts["policy_kind"],
        version=facts["version"],
        started_at=_time(facts["started_at"]),
        finished_at=_time(facts["finished_at"] or manifest["finished_at"]),
        imported_from=source[:200],
    )
    Run.objects.filter(pk=run.pk).update(created_at=_time(facts["created_at"]))
    return run


class _Import:
    def __init__(self, folder: Path, manifest: Row, run: Run, progress: Progress) -> None:
        self.run = run
        self._folder, self._manifest, self._progress = folder, manifest, progress
        self._groups: dict[tuple[str, int], Group] = {}
        self._executions: dict[Key, Execution] = {}
        self._total = sum(manifest["rows"].values())
        self._done = 0

    def groups(self) -> None:
        known = {task.name: task for task in Task.objects.filter(task_set=self.run.task_set)}
        fresh = []
        for row in self._rows(TASKS):
            task = known.get(row["name"])
            if task is None and not self.run.task_set.path:
                fresh.append(row)
            elif task is None or (task.digest, task.split) != (row["digest"], row["split"]):
                raise BadExport(
                    f"{self._folder}: its task {row['name']!r} is not the one of task set {self.run.task_set.name} on "
                    "this machine, which has the same digest: the export is not what it says"
                )
        made = Task.objects.bulk_create(
            Task(task_set=self.run.task_set, path="", config={}, **_fields(TASKS, row)) for row in fresh
        )
        known |= {task.name: task for task in made}
        for chunk in _chunks(self._rows(GROUPS)):
            rows = Group.objects.bulk_create(
                Group(run=self.run, task=known[row["task"]], **_fields(GROUPS, row)) for row in chunk
            )
            _set_times(Group, rows, chunk)
            self._groups |= {(group.kind, group.number): group for group in rows}

    def executions(self) -> None:
        for chunk in _chunks(self._rows(EXECUTIONS)):
            made = Execution.objects.bulk_create(self._execution(row) for row in chunk)
            self._executions |= {_key(row): execution for row, execution in zip(chunk, made, strict=True)}
            SelectionRecord.objects.bulk_create(
                SelectionRecord(
                    execution=execution,
                    attempt=execution.attempt,
                    **{column.field: row[column.name] for column in SELECTION},
                )
                for row, execution in zip(chunk, made, strict=True)
                if row["selection_batch"] is not None
            )

    def _execution(self, row: Row) -> Execution:
        values = _fields(EXECUTIONS, row) | {"exclusions": [[e["call"], e["reason"]] for e in row["exclusions"]]}
        return Execution(
            run=self.run, group=self._groups[row["group_kind"], row["group"]], index=row["index"], **values
        )

    def assessments(self) -> None:
        people = {user.get_username(): user for user in get_user_model().objects.all()}
        for chunk in _chunks(self._rows(ASSESSMENTS)):
            made = Assessment.objects.bulk_create(
                Assessment(execution=self._executions[_key(row)], **_fields(ASSESSMENTS, row)) for row in chunk
            )
            _set_times(Assessment, made, chunk)
            for row, verdict in zip(chunk, made, strict=True):
                if row["asked_by"] is not None:
                    who = people.get(row["asked_by"])
                    said = row["asked_why"] or ""
                    Reassessment.objects.create(
                        execution=verdict.execution,
                        attempt=verdict.attempt,
                        state=Reassessment.State.DONE,
                        owner=who,
                        reason=said if who else f"{said} (asked by {row['asked_by'] or 'nobody'})",
                        assessment=verdict,
                        finished_at=row["created_at"],
                    )

    def calls(self) -> None:
        """Calls by execution, each followed by the tree that they fold to."""
        for key, rows in groupby(self._rows(CALLS), _key):
            execution = self._executions[key]
            for chunk in _chunks(rows):
                Call.objects.bulk_create(
                    Call(execution=execution, tokens=_tokens(row), **_fields(CALLS, row)) for row in chunk
                )
            if execution.state == Execution.State.FINISHED:
                write_nodes(execution, folded(execution))

    def selection(self) -> None:
        for model, table in ((Draw, DRAWS), (Trajectory, TRAJECTORIES)):
            for chunk in _chunks(self._rows(table)):
                model.objects.bulk_create(
                    model(execution=self._executions[_key(row)], **_fields(table, row)) for row in chunk
                )

    def close(self) -> None:
        """Counters are numbers of rows; one event says where the rows are from."""
        training = [e for e in self._executions.values() if e.group.kind == Group.Kind.TRAINING]
        launched = [e for e in training if e.launched_at is not None]
        cancelled = [e for e in training if e.launched_at is None and e.state == Execution.State.CANCELLED]
        self.run.dispatched = len(training) - len(cancelled)
        self.run.launched = self.run.finished = len(launched)
        self.run.dispatch_cursor = sum(kind == Group.Kind.TRAINING for kind, _ in self._groups)
        self.run.save(update_fields=["dispatched", "launched", "finished", "dispatch_cursor"])
        payload = {"name": self.run.name, "imported_from": self.run.imported_from}
        events.record(self.run.pk, events.EventKind.RUN_CREATED, payload)
        self.run.refresh_from_db()

    def _rows(self, table: Table) -> Iterator[Row]:
        for row in table_rows(self._folder, self._manifest, table.name):
            yield row
            self._done += 1
            self._progress(self._done, self._total)


def _key(row: Row) -> Key:
    return row["group_kind"], row["group"], row["index"]


def _fields(table: Table, row: Row) -> Row:
    """Model fields of a row; a null of a text column is no text."""
    own = [column for column in table.columns if column.field and column not in SELECTION]
    return {column.field: row[column.name] for column in own}


def _tokens(row: Row) -> bytes:
    if row["new_input_ids"] is None:
        return UNREADABLE
    return encode_call(CallDelta(row["new_input_ids"], row["output_ids"], row["output_logprobs"]))


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == CHUNK_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _set_times(model: Any, made: list[Any], chunk: list[Row]) -> None:
    """`created_at` is set by the database layer when a row is made; here it is what it was."""
    for item, row in zip(made, chunk, strict=True):
        item.created_at = row["created_at"]
    model.objects.bulk_update(made, ["created_at"])


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
