"""Rows of an export held against the tables that they are to become rows of: types, bounds, references, order.

Everything is looked at before anything is written, one row at a time; only keys are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
from django.db import connection, models

from agents.core.bounds import is_reward, storable
from agents.core.outcome import Outcome
from agents.exports.tables import (
    ASSESSMENTS,
    CALLS,
    DRAWS,
    EXECUTIONS,
    GROUPS,
    SELECTION,
    TASKS,
    TRAJECTORIES,
    Column,
    Table,
)
from agents.models import Assessment, Call, Draw, Execution, Group, SelectionRecord, Task, Trajectory
from agents.models.figures import MAX_FIGURE

Row = dict[str, Any]

MODELS: dict[str, Any] = {
    TASKS.name: Task, GROUPS.name: Group, EXECUTIONS.name: Execution, ASSESSMENTS.name: Assessment, CALLS.name: Call,
    DRAWS.name: Draw, TRAJECTORIES.name: Trajectory,
}  # fmt: skip
REWARDS = frozenset({"reward", "training_reward", "value"})
#: Characters of a text column without a limit of its own, and levels of a JSON column.
MAX_TEXT = 4 << 20
MAX_DEPTH = 64
ENDED = (Execution.State.FINISHED, Execution.State.CANCELLED)


class BadRow(ValueError):
    """A row that cannot be imported; the message names the column and what is wrong."""


class Checker:
    """Sees the rows of all tables, in the order tasks, groups, executions, and then the others."""

    def __init__(self) -> None:
        self._seen: dict[str, set[Any]] = {name: set() for name in MODELS}
        self._last: tuple[str, Any] = ("", None)
        self._numbers: set[Any] = set()

    def check(self, table: Table, row: Row) -> None:
        """Raises BadRow."""
        for column in table.columns:
            check_value(column, field_of(table, column), row[column.name])
        if table is TASKS:
            self._once(table, row["name"])
        elif table is GROUPS:
            self._known(TASKS, row["task"])
            self._once(table, (row["group_kind"], row["group"]))
            if row["num_votes"] and (row["reward_mean"] is None or row["reward_std"] is None):
                raise BadRow("it has votes, but no reward_mean and reward_std")
        elif table is EXECUTIONS:
            self._known(GROUPS, (row["group_kind"], row["group"]))
            self._once(table, _key(row))
            _check_end(row)
        else:
            self._known(EXECUTIONS, _key(row))
            if "number" in row:
                self._in_order(table, row)

    def _once(self, table: Table, key: Any) -> None:
        if key in self._seen[table.name]:
            raise BadRow(f"{key} is there twice")
        self._seen[table.name].add(key)

    def _known(self, table: Table, key: Any) -> None:
        if key not in self._seen[table.name]:
            raise BadRow(f"{key} is not among the {table.name}")

    def _in_order(self, table: Table, row: Row) -> None:
        """Rows of an execution stand together, each with a number of its own."""
        at = (table.name, _key(row))
        if at != self._last:
            self._once(table, at[1])
            self._last, self._numbers = at, set()
        if row["number"] in self._numbers:
            raise BadRow(f"number {row['number']} of {at[1]} is there twice")
        self._numbers.add(row["number"])


def field_of(table: Table, column: Column) -> models.Field[Any, Any] | None:
    """The model field that a column is written to."""
    if not column.field:
        return None
    model = SelectionRecord if column in SELECTION else MODELS[table.name]
    field: models.Field[Any, Any] = model._meta.get_field(column.field)
    return field


def check_value(column: Column, field: models.Field[Any, Any] | None, value: Any) -> None:
    """Raises BadRow for a value that the column cannot have."""
    try:
        if value is None:
            if field is not None and not field.null and column not in SELECTION:
                raise BadRow("it is null")
            return
        _KINDS[column.kind](value)
        if field is not None:
            _check_field(field, value)
        if column.name in REWARDS and not is_reward(value):
            raise BadRow("it is beyond what a reward can be")
    except BadRow as error:
        raise BadRow(f"{column.name}: {error}") from None


def _check_field(field: models.Field[Any, Any], value: Any) -> None:
    if field.choices and value not in dict(field.flatchoices):
        raise BadRow(f"{value!r:.80} is none of {', '.join(map(str, dict(field.flatchoices)))}")
    if field.max_length and len(value) > field.max_length:
        raise BadRow(f"it is longer than {field.max_length} characters")
    if isinstance(field, models.IntegerField):
        low, high = connection.ops.integer_field_range(field.get_internal_type())
        if not low <= value <= high:
            raise BadRow(f"it is not between {low} and {high}")
    shape = field.default if isinstance(field, models.JSONField) else None
    if shape in (dict, list) and not isinstance(value, shape):
        raise BadRow(f"it is no {shape.__name__}")


def _check_end(row: Row) -> None:
    """An execution has ended, and has a reward exactly where it votes."""
    if row["state"] not in ENDED or not row["outcome"]:
        raise BadRow(f"it is {row['state']} with the outcome {row['outcome']!r}; an export holds what has ended")
    votes = Outcome(row["outcome"]).votes
    if votes != (row["reward"] is not None) or votes != (row["training_reward"] is not None):
        raise BadRow(f"its outcome is {row['outcome']}, its reward {row['reward']}")


def _key(row: Row) -> tuple[str, int, int]:
    return row["group_kind"], row["group"], row["index"]


def _int(value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRow(f"{value!r:.80} is no integer")


def _float(value: Any) -> None:
    if not isinstance(value, float) or not math.isfinite(value) or abs(value) > MAX_FIGURE:
        raise BadRow(f"{value!r:.80} is no finite number within {MAX_FIGURE:.0e}")


def _bool(value: Any) -> None:
    if not isinstance(value, bool):
        raise BadRow(f"{value!r:.80} is neither true nor false")


def _text(value: Any) -> None:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise BadRow(f"it is no text of at most {MAX_TEXT} characters")
    if storable(value) != value:
        raise BadRow("it holds characters that a database does not keep")


def _time(value: Any) -> None:
    if not isinstance(value, datetime) or value.tzinfo is None or not 1970 <= value.year <= 9000:
        raise BadRow(f"{value!r:.80} is no time with its zone")


def _json(value: Any, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise BadRow(f"it is deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        _text(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadRow("it holds a number that is not finite")
    elif isinstance(value, int) and abs(value) > 2**63:
        raise BadRow("it holds an integer of more than 64 bits")
    for item in _items(value):
        _json(item, depth + 1)


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _array(value: Any) -> None:
    if not isinstance(value, np.ndarray) or value.ndim != 1:
        raise BadRow("it is no list of numbers")


def _list_of(check: Any) -> Any:
    def whole(value: Any) -> None:
        if not isinstance(value, list):
            raise BadRow("it is no list")
        for item in value:
            check(item)

    return whole


def _struct(**checks: Any) -> Any:
    def whole(value: Any) -> None:
        if not isinstance(value, dict) or set(value) != set(checks):
            raise BadRow(f"an item of it has not exactly {', '.join(checks)}")
        for name, check in checks.items():
            check(value[name])

    return whole


_KINDS: dict[str, Any] = {
    "int": _int, "float": _float, "bool": _bool, "text": _text, "time": _time, "json": _json, "int32s": _array,
    "float32s": _array, "bools": _array, "texts": _list_of(_text), "spans": _list_of(_list_of(_int)),
    "exclusions": _list_of(_struct(call=_int, reason=_text)),
    "candidates": _list_of(_struct(call=_int, count=_int, probability=_float)),
}  # fmt: skip
