"""Decisions as values: what to do, or what was considered and refused, each with the numbers that say why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from scheduler.core.jsonform import to_json
from scheduler.core.snapshot import ROLLOUT, TRAINING


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
class DispatchBurst:
    """Burst `number`: `num_groups` groups, and the settings that hold for it as long as it lasts."""

    number: int
    version: int
    num_groups: int
    groups_per_batch: int
    executions_per_group: int
    max_staleness: int


@dataclass(frozen=True, slots=True)
class Launch:
    """`count` waiting executions, the oldest first."""

    count: int


@dataclass(frozen=True, slots=True)
class LeaveRollout:
    """`unsafe`: by the order of a person who set the capacity rule aside."""

    unsafe: bool
    to_role: str = TRAINING


@dataclass(frozen=True, slots=True)
class ReturnToRollout:
    to_role: str = ROLLOUT


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """`burst` is the one whose groups it takes, or the first of them where the policy mixes bursts."""

    number: int
    burst: int
    version: int


@dataclass(frozen=True, slots=True)
class AdmitGroup:
    """At most `j_max` trajectories of each of its executions are trained."""

    group: int
    batch: int
    j_max: int


@dataclass(frozen=True, slots=True)
class SealBatch:
    batch: int


@dataclass(frozen=True, slots=True)
class StartEvaluation:
    """`switches`: its cell must change its role first."""

    number: int
    version: int
    num_tasks: int
    switches: bool


@dataclass(frozen=True, slots=True)
class ReserveCell:
    """Another cell for evaluation `number`, which has lost its own."""

    number: int
    switches: bool


@dataclass(frozen=True, slots=True)
class LaunchEvaluation:
    evaluation: int
    count: int


@dataclass(frozen=True, slots=True)
class CancelEvaluation:
    number: int


@dataclass(frozen=True, slots=True)
class RaiseAlarm:
    alarm: str


#: What an accepted decision tells whoever carries it out. Drains, starts and the end of a run need no more than their
#: kind and cell.
Params = (
    DispatchBurst
    | Launch
    | LeaveRollout
    | ReturnToRollout
    | OpenBatch
    | AdmitGroup
    | SealBatch
    | StartEvaluation
    | ReserveCell
    | LaunchEvaluation
    | CancelEvaluation
    | RaiseAlarm
)
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Decision:
    """`accepted` False means: considered, and not done, because of `reason`."""

    kind: Kind
    accepted: bool
    reason_code: str
    reason: str
    cell_index: int | None = None
    params: Params | None = None
    again_s: float | None = None  # of a refusal that only time will change: when to ask again, on the run's clock

    @property
    def repeats_as(self) -> tuple[object, ...] | None:
        """Two refusals with the same key say the same thing; an accepted decision never repeats (None)."""
        return None if self.accepted else (self.kind, self.cell_index, self.reason_code)

    def expect(self, kind: type[P]) -> P:
        """Its parameters, which are of this kind. Raises TypeError otherwise."""
        if not isinstance(self.params, kind):
            raise TypeError(f"{self.kind} carries {self.params!r}, not {kind.__name__}")
        return self.params

    def stored_params(self) -> dict[str, Any]:
        """Parameters as rows keep them, by name; of a refusal only `again_s`."""
        params: dict[str, Any] = {} if self.params is None else to_json(self.params)
        return params if self.again_s is None else {**params, "again_s": self.again_s}

    def to_json(self) -> dict[str, Any]:
        """As rows keep it, by field name."""
        return {
            "kind": self.kind.value,
            "accepted": self.accepted,
            "reason_code": self.reason_code,
            "reason": self.reason,
            "cell_index": self.cell_index,
            "params": self.stored_params(),
        }
