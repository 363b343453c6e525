"""Rows of decisions: how they are numbered, where the snapshot goes (docs/algorithms.md §9)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import events
from agents.events import EventKind
from scheduler import models
from scheduler.core.decisions import Decision, Kind
from scheduler.observe import Observation
from scheduler.rules import fingerprint


@dataclass
class DecisionRows:
    """Numbers the rows of one evaluation of `decide`; the first one carries the snapshot."""

    run_id: int
    observation: Observation
    stored: list[models.Decision] = field(default_factory=list)

    def store(self, decisions: Sequence[Decision]) -> None:
        first = self.observation.next_decision + len(self.stored)
        rows = [
            models.Decision(
                run_id=self.run_id,
                number=first + place,
                evaluation_number=self.observation.next_decide,
                kind=decision.kind.value,
                cell_index=decision.cell_index,
                accepted=decision.accepted,
                reason_code=decision.reason_code,
                reason=decision.reason,
                params=decision.stored_params(),
                snapshot=None if self.stored or place else self._snapshot(),
            )
            for place, decision in enumerate(decisions)
        ]
        models.Decision.objects.bulk_create(rows)
        self.stored += rows
        announced = [row for row in rows if row.kind not in QUIET]
        if announced:
            events.record_all(self.run_id, [(EventKind.DECISION_MADE, _event_payload(row)) for row in announced])

    def _snapshot(self) -> dict[str, Any]:
        return {**self.observation.snapshot.to_json(), "rules": fingerprint()}


#: Decisions whose effect is an event of its own; repeating them in the feed would only be noise.
QUIET = (Kind.LAUNCH, Kind.LAUNCH_EVALUATION, Kind.ADMIT_GROUP, Kind.SEAL_BATCH, Kind.OPEN_BATCH)


def _event_payload(row: models.Decision) -> dict[str, Any]:
    return {
        "number": row.number,
        "kind": row.kind,
        "cell": row.cell_index,
        "accepted": row.accepted,
        "code": row.reason_code,
        "reason": row.reason,
    }
