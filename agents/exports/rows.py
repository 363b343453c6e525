"""Rows of the export tables, read by key a few executions at a time, so that a run of any size streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, F, Model, OuterRef, Q, QuerySet, Sum

from agents.core.codec import CorruptTokens, decode_call
from agents.core.fold import Folded, fold
from agents.core.trained import target_mask
from agents.exports.tables import ASSESSMENTS, CALLS, DRAWS, EXECUTIONS, GROUPS, SELECTION, TASKS, TRAJECTORIES, Table
from agents.models import Assessment, Call, Draw, Execution, Group, Run, SelectionRecord, Task, Trajectory
from agents.recorded import calls_of
from agents.report import exclusion_of
from agents.web.executions import Filters, filtered

Row = dict[str, Any]

#: Executions read at once, and unique tokens among them after which a page ends.
PAGE_EXECUTIONS = 200
PAGE_TOKENS = 4_000_000
#: Tables of rows that not every execution has: a page that holds none of them would be read in vain.
CHILDREN: dict[str, type[Model]] = {
    "assessments": Assessment, "calls": Call, "draws": Draw, "trajectories": Trajectory,
}  # fmt: skip
ENDED = (Execution.State.FINISHED, Execution.State.CANCELLED)


@dataclass(frozen=True)
class Page:
    """A few executions, oldest first, with their groups and tasks loaded."""

    executions: list[Execution]

    @property
    def ids(self) -> list[int]:
        return [execution.pk for execution in self.executions]


def ended(run: Run, filters: Filters) -> QuerySet[Execution]:
    """Executions that are exported: those that have ended and pass the filters of the executions page."""
    return filtered(run, filters).filter(state__in=ENDED)


def pages(run: Run, filters: Filters, after: int = 0, having: str = "") -> Iterator[Page]:
    """All of them in order of their ids, from beyond `after`; with `having`, those that this table has rows of."""
    rows = ended(run, filters).defer(None).defer("harness_log").order_by("pk")
    if having in CHILDREN:
        rows = rows.filter(Exists(CHILDREN[having]._default_manager.filter(execution=OuterRef("pk")).order_by()))
    while found := list(rows.filter(pk__gt=after)[:PAGE_EXECUTIONS]):
        start = 0
        while start < len(found):
            end, tokens = start + 1, found[start].num_unique_tokens
            while end < len(found) and tokens + found[end].num_unique_tokens <= PAGE_TOKENS:
                tokens += found[end].num_unique_tokens
                end += 1
            yield Page(found[start:end])
            start = end
        after = found[-1].pk


def groups(run: Run, filters: Filters) -> Iterator[Row]:
    """Groups of the exported executions."""
    unresolved = Count("executions", filter=Q(executions__outcome=Execution.Outcome.UNRESOLVED))
    wanted = ended(run, filters).order_by().values("group")
    rows = Group.objects.filter(run=run, pk__in=wanted).select_related("task").annotate(num_unresolved=unresolved)
    for group in rows.order_by("pk").iterator(chunk_size=500):
        effect = exclusion_of(group, group.num_unresolved)
        derived = {
            "task": group.task.name,
            "num_unresolved": group.num_unresolved,
            "reward_mean_as_zero": effect.mean_as_zero,
            "reward_std_as_zero": effect.std_as_zero,
        }
        yield _of_fields(GROUPS, group) | derived


def tasks(run: Run, filters: Filters) -> Iterator[Row]:
    wanted = ended(run, filters).order_by().values("group__task")
    for task in Task.objects.filter(pk__in=wanted).order_by("name").iterator(chunk_size=500):
        yield _of_fields(TASKS, task)


def executions(page: Page) -> Iterator[Row]:
    records = {row.execution_id: row for row in SelectionRecord.objects.filter(execution__in=page.ids)}
    for execution in page.executions:
        record = records.get(execution.pk)
        yield (
            _which(execution)
            | _of_fields(EXECUTIONS, execution)
            | {"task": execution.group.task.name}
            | {column.name: getattr(record, column.field) if record else None for column in SELECTION}
            | {"exclusions": [{"call": call, "reason": reason} for call, reason in execution.exclusions]}
        )


def assessments(page: Page) -> Iterator[Row]:
    rows = Assessment.objects.filter(execution__in=page.ids).select_related("reassessment__owner")
    for execution, row in _beside(page, rows.order_by("pk")):
        request = getattr(row, "reassessment", None)
        asked = {
            "asked_by": (request.owner.get_username() if request.owner else "") if request else None,
            "asked_why": request.reason if request else None,
        }
        yield _which(execution) | _of_fields(ASSESSMENTS, row) | asked


def calls(page: Page) -> Iterator[Row]:
    rows = Call.objects.with_tokens().filter(execution__in=page.ids, attempt=F("execution__attempt"))
    by_id = {execution.pk: execution for execution in page.executions}
    for row in rows.order_by("execution", "number").iterator(chunk_size=500):
        yield _which(by_id[row.execution_id]) | _of_fields(CALLS, row) | _tokens_of(row)


def _tokens_of(call: Call) -> Row:
    try:
        delta = decode_call(call.tokens)
    except CorruptTokens:
        return {"new_input_ids": None, "output_ids": None, "output_logprobs": None}
    return {
        "new_input_ids": delta.new_input_ids,
        "output_ids": delta.output_ids,
        "output_logprobs": delta.output_logprobs,
    }


def draws(page: Page) -> Iterator[Row]:
    rows = Draw.objects.filter(execution__in=page.ids, attempt=F("execution__attempt")).order_by("execution", "number")
    for execution, row in _beside(page, rows):
        yield _which(execution) | _of_fields(DRAWS, row)


def trajectories(page: Page) -> Iterator[Row]:
    rows = Trajectory.objects.filter(execution__in=page.ids, attempt=F("execution__attempt"))
    found: dict[int, list[Trajectory]] = {}
    for row in rows.order_by("execution", "number"):
        found.setdefault(row.execution_id, []).append(row)
    for execution in page.executions:
        if execution.pk in found:
            yield from _trajectories_of(execution, found[execution.pk])


def _trajectories_of(execution: Execution, rows: Sequence[Trajectory]) -> Iterator[Row]:
    recorded = calls_of([execution.pk])[execution.pk]
    folded = fold(call.recorded for call in recorded)
    num_targets = sum(row.num_targets for row in rows if row.batch is not None)
    for row in rows:
        derived = {
            "task": execution.group.task.name,
            "reward": execution.reward,
            "advantage": execution.advantage,
            "weight": 1 / num_targets if row.batch is not None and num_targets else None,
        }
        yield _which(execution) | _of_fields(TRAJECTORIES, row) | derived | _path_of(folded, row)


def _path_of(folded: Folded, row: Trajectory) -> Row:
    if row.leaf_call is None or row.leaf_call not in folded.tree.ends:
        return {"ids": [], "target_mask": [], "logprobs": [], "versions": [], "samplers": []}
    tokens = folded.tree.path_tokens(row.leaf_call)
    return {
        "ids": tokens.ids,
        "target_mask": target_mask(row.targets, len(tokens.ids)),
        "logprobs": tokens.logprobs,
        "versions": tokens.versions,
        "samplers": tokens.samplers,
    }


#: Tables whose rows belong to executions.
BY_EXECUTION: dict[str, Callable[[Page], Iterator[Row]]] = {
    "executions": executions,
    "assessments": assessments,
    "calls": calls,
    "draws": draws,
    "trajectories": trajectories,
}
OF_RUN: dict[str, Callable[[Run, Filters], Iterator[Row]]] = {"tasks": tasks, "groups": groups}


def rows_of(table: str, run: Run, filters: Filters) -> Iterator[Row]:
    """All rows of one table."""
    if table in OF_RUN:
        yield from OF_RUN[table](run, filters)
        return
    for page in pages(run, filters, having=table):
        yield from BY_EXECUTION[table](page)


def count_of(table: str, run: Run, filters: Filters) -> int:
    """How many rows `rows_of` gives, without reading them."""
    found = ended(run, filters).order_by()
    if table == "executions":
        return found.count()
    if table == "groups":
        return found.values("group").distinct().count()
    if table == "tasks":
        return found.values("group__task").distinct().count()
    if table == "calls":  # counted when an execution ends: a count over all calls of a long run takes seconds
        return found.aggregate(total=Sum("num_calls"))["total"] or 0
    rows = CHILDREN[table]._default_manager.filter(execution__in=found.values("pk"))
    return (rows if table == "assessments" else rows.filter(attempt=F("execution__attempt"))).count()


def _beside(page: Page, rows: Any) -> Iterator[tuple[Execution, Any]]:
    by_id = {execution.pk: execution for execution in page.executions}
    for row in rows:
        yield by_id[row.execution_id], row


def _which(execution: Execution) -> Row:
    group = execution.group
    return {"group_kind": group.kind, "group": group.number, "index": execution.index, "attempt": execution.attempt}


def _of_fields(table: Table, row: Any) -> Row:
    """Columns that are fields of the row's own model."""
    own = [column for column in table.columns if column.field and column not in SELECTION]
    return {column.name: getattr(row, column.field) for column in own}
