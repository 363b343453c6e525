"""Stored snapshots through `decide` again: the same snapshots must give the same decisions (docs/algorithms.md §9)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from scheduler.core.decide import decide
from scheduler.core.decisions import Decision, Kind
from scheduler.core.policies import policy_of
from scheduler.core.snapshot import Snapshot
from scheduler.models import Decision as Row
from scheduler.rules import fingerprint

IN_WAVES = (Kind.LAUNCH.value, Kind.LAUNCH_EVALUATION.value)


@dataclass(frozen=True)
class Difference:
    """A stored decision that `decide` does not make again, or one that it makes and that was not stored."""

    evaluation_number: int
    what: str


@dataclass(frozen=True)
class Replay:
    num_evaluations: int
    num_decisions: int
    num_by_other_rules: int  # evaluations by an older or newer version of the rules: not compared
    differences: list[Difference]


def replay(run_id: int) -> Replay:
    """Every accepted decision must come again in the same order; every stored refusal must be among the new ones.

    Of launches, which come in waves, only some are stored: those that are must come again.
    """
    num_evaluations = num_decisions = num_by_other_rules = 0
    differences: list[Difference] = []
    for rows in _evaluations(run_id):
        if rows[0].snapshot.get("rules") != fingerprint():
            num_by_other_rules += 1
            continue
        num_evaluations += 1
        num_decisions += len(rows)
        snapshot = Snapshot.from_json(rows[0].snapshot)
        again = decide(snapshot, policy_of(snapshot.policy_kind), snapshot.taken_at_s)
        differences += [Difference(rows[0].evaluation_number, what) for what in _compare(rows, again)]
    return Replay(num_evaluations, num_decisions, num_by_other_rules, differences)


def _evaluations(run_id: int) -> Iterator[list[Row]]:
    rows = Row.objects.filter(run=run_id).order_by("number").iterator(chunk_size=500)
    for _, group in groupby(rows, key=lambda row: row.evaluation_number):
        yield list(group)


def _compare(rows: list[Row], again: list[Decision]) -> Iterator[str]:
    stored = [_key(row.kind, row.cell_index, row.accepted, row.reason, row.params) for row in rows]
    made = [_key(d.kind.value, d.cell_index, d.accepted, d.reason, d.stored_params()) for d in again]
    accepted = [key for key in made if key[2] and key[0] not in IN_WAVES]
    carried_out = [key for key in stored if key[2] and key[0] not in IN_WAVES]
    # An evaluation may have ended early because the world had moved on: then a prefix was carried out.
    if carried_out != accepted[: len(carried_out)]:
        yield f"stored {carried_out}, decided again {accepted}"
    for key in stored:
        if key not in made:
            yield f"stored decision {key} is not made again"


def _key(
    kind: str, cell_index: int | None, accepted: bool, reason: str, params: dict[str, object]
) -> tuple[str, int | None, bool, str, tuple[tuple[str, str], ...]]:
    return kind, cell_index, accepted, reason, tuple(sorted((name, repr(value)) for name, value in params.items()))
