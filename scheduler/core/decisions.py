"""Decisions as values: what to do, or what was considered and refused, each with the numbers that say why."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduler.core.jsonform import to_json


class Kind(StrEnum):
    """What a decision is about."""

    DISPATCH_BURST = "dispatch_burst"
    LAUNCH = "launch"
    LEAVE_ROLLOUT = "leave_rollout"
    RETURN_TO_ROLLOUT = "return_to_rollout"
    DRAIN_CELL = "drain_cell"
    START_CELL = "start_cell"
    OPEN_BATCH = "open_batch"
    ADMIT_GROUP = "admit_group"
    SEAL_BATCH = "seal_batch"
    START_EVALUATION = "start_evaluation"
    RESERVE_CELL = "reserve_cell"
    LAUNCH_EVALUATION = "launch_evaluation"
    CANCEL_EVALUATION = "cancel_evaluation"
    RAISE_ALARM = "raise_alarm"
    FINISH_RUN = "finish_run"


@dataclass(frozen=True, slots=True)
class Decision:
    """`accepted` False means: considered, and not done, because of `reason`."""

    kind: Kind
    accepted: bool
    reason_code: str
    reason: str
    cell_index: int | None = None
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def repeats_as(self) -> tuple[object, ...] | None:
        """Two refusals with the same key say the same thing; an accepted decision never repeats (None)."""
        return None if self.accepted else (self.kind, self.cell_index, self.reason_code)

    def to_json(self) -> dict[str, Any]:
        return {**to_json(self), "kind": self.kind.value}
