"""Recorded calls read for folding: the only place that loads token columns in bulk."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import F

from agents.core.fold import EncodedCall, Folded, fold
from agents.models import Call, Execution


@dataclass(frozen=True)
class StoredCall:
    recorded: EncodedCall
    false_fork: bool


def calls_of(execution_ids: Collection[int]) -> dict[int, list[StoredCall]]:
    """Calls of the current attempt of each execution, in one query. An execution without calls has an empty list."""
    rows = (
        Call.objects.filter(execution__in=execution_ids, attempt=F("execution__attempt"))
        .order_by()
        .values_list(
            "execution",
            "number",
            "parent_number",
            "prefix_tokens",
            "tokens",
            "versions",
            "role",
            "state",
            "output_tokens",
            "false_fork",
        )
    )
    found: dict[int, list[StoredCall]] = defaultdict(list)
    for execution, number, parent, prefix_tokens, tokens, versions, role, state, output_tokens, false_fork in rows:
        call = EncodedCall(
            number,
            parent,
            prefix_tokens,
            tokens,
            versions,
            role,
            # A call that only counted its input sampled nothing that its client could have seen.
            acknowledged=state in (Call.State.COMPLETE, Call.State.QUARANTINED) and output_tokens > 0,
            quarantined=state == Call.State.QUARANTINED,
        )
        found[execution].append(StoredCall(call, false_fork))
    return {execution: found[execution] for execution in execution_ids}


def folded(execution: Execution) -> Folded:
    """The tree of the execution's current attempt."""
    return fold(call.recorded for call in calls_of([execution.pk])[execution.pk])
