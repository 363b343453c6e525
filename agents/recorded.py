"""Recorded calls of one attempt, read for folding: the only query that loads token columns in bulk."""

from dataclasses import dataclass

from agents.core.fold import Folded, RecordedCall, fold
from agents.models import Call, Execution


@dataclass(frozen=True)
class StoredCall:
    recorded: RecordedCall
    false_fork: bool


def calls_of(execution: Execution) -> list[StoredCall]:
    """Every call of the execution's current attempt."""
    rows = Call.objects.filter(execution=execution, attempt=execution.attempt).values_list(
        "number", "parent_number", "prefix_tokens", "tokens", "versions", "role", "state", "false_fork"
    )
    return [
        StoredCall(
            RecordedCall(
                number,
                parent,
                prefix_tokens,
                tokens,
                versions,
                role,
                acknowledged=state in (Call.State.COMPLETE, Call.State.QUARANTINED),
                quarantined=state == Call.State.QUARANTINED,
            ),
            false_fork,
        )
        for number, parent, prefix_tokens, tokens, versions, role, state, false_fork in rows
    ]


def folded(execution: Execution) -> Folded:
    """The tree of the execution's current attempt."""
    return fold(call.recorded for call in calls_of(execution))
