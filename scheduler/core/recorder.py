"""Which decisions are worth a row: all that move something, and refusals that say what was not said before.

See docs/algorithms.md §9.

Live runs and simulated ones store the same decisions, because both ask here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.core.decisions import Decision, Kind

#: Launches come in waves, a few per tick: one row per so many seconds tells enough, executions have times of their own.
LAUNCH_ROWS_EVERY_S = 2.0
#: A refusal that comes and goes is stored once per so many seconds, unless its cell moved meanwhile.
REFUSAL_ROWS_EVERY_S = 5.0


@dataclass
class Recorder:
    """Remembers which decisions of one run were stored."""

    refused_s: dict[tuple[object, ...], float] = field(default_factory=dict)  # when stored, by what they say
    refused_last: frozenset[object] = frozenset()
    launched_s: dict[Kind, float] = field(default_factory=dict)

    def worth_storing(self, decisions: Sequence[Decision], now_s: float) -> list[Decision]:
        """The decisions that are worth a row."""
        moved = {d.cell_index for d in decisions if d.accepted and d.cell_index is not None}
        self.refused_s = {key: at for key, at in self.refused_s.items() if key[1] not in moved}
        chosen = [d for d in decisions if (self._launch(d, now_s) if d.accepted else self._refusal(d, now_s))]
        self.refused_last = frozenset(d.repeats_as for d in decisions if not d.accepted)
        return chosen

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
