"""Rows of decisions: which are worth one, how they are numbered, where the snapshot goes (algorithms.md §9)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import events
from agents.events import EventKind
from scheduler import models
from scheduler.core.decisions import Decision, Kind
from scheduler.observe import Observation
from scheduler.rules import fingerprint

#: Launches come in waves, a few per tick: one row per so many seconds tells enough, executions have times of their own.
LAUNCH_ROWS_EVERY_S = 2.0
#: A refusal that comes and goes is stored once per so many seconds, unless its cell moved meanwhile.
REFUSAL_ROWS_EVERY_S = 5.0


@dataclass
class Recorder:
    """Decides which decisions of one run get a row: all that move something, and refusals that are new."""

    refused_s: dict[tuple[object, ...], float] = field(default_factory=dict)  # when stored, by what they say
    refused_last: frozenset[object] = frozenset()
    launched_s: dict[Kind, float] = field(default_factory=dict)

    def news(self, decisions: Sequence[Decision], now_s: float) -> list[Decision]:
        """The decisions that are worth a row."""
        moved = {d.cell_index for d in decisions if d.accepted and d.cell_index is not None}
        self.refused_s = {key: at for key, at in self.refused_s.items() if key[1] not in moved}
        fresh = [d for d in decisions if (self._launch(d, now_s) if d.accepted else self._refusal(d, now_s))]
        self.refused_last = frozenset(d.repeats_as for d in decisions if not d.accepted)
        return fresh

    def _launch(self, decision: Decision, now_s: float) -> bool:
        if decision.kind not in (Kind.LAUNCH, Kind.LAUNCH_EVALUATION):
            return True
        if now_s - self.launched_s.get(decision.kind, float("-inf")) < LAUNCH_ROWS_EVERY_S:
            return False
        self.launched_s[decision.kind] = now_s
        return True

    def _refusal(self, decision: Decision, now_s: float) -> bool:
        key = decision.repeats_as
        if key is None or key in self.refused_last:
            return False
        if now_s - self.refused_s.get(key, float("-inf")) < REFUSAL_ROWS_EVERY_S:
            return False
        self.refused_s[key] = now_s
        return True


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
                params=decision.params,
                snapshot=None if self.stored or place else self._snapshot(),
            )
            for place, decision in enumerate(decisions)
        ]
        models.Decision.objects.bulk_create(rows)
        self.stored += rows
        told = [d for d in decisions if d.kind not in QUIET]
        if told:
            events.record_all(self.run_id, [(EventKind.DECISION_MADE, _told(first, d)) for d in told])

    def _snapshot(self) -> dict[str, Any]:
        return {**self.observation.snapshot.to_json(), "rules": fingerprint()}


#: Decisions whose effect is an event of its own; repeating them in the feed would only be noise.
QUIET = (Kind.LAUNCH, Kind.LAUNCH_EVALUATION, Kind.ADMIT_GROUP, Kind.SEAL_BATCH, Kind.OPEN_BATCH)


def _told(first: int, decision: Decision) -> dict[str, Any]:
    return {
        "number": first,
        "kind": decision.kind.value,
        "cell": decision.cell_index,
        "accepted": decision.accepted,
        "code": decision.reason_code,
        "reason": decision.reason,
    }
