"""What `decide` sees: one consistent snapshot of a run, as values. Times are seconds on the database's clock.

A snapshot together with its policy's name and its time replays to the same decisions (docs/algorithms.md §9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.core.counters import Counters
from scheduler.core.jsonform import from_json, to_json
from scheduler.core.settings import Settings

STARTING: Final = "starting"
ROLLOUT: Final = "rollout"
TRAINING: Final = "training"
SWITCHING: Final = "switching"
LOST: Final = "lost"
STOPPED: Final = "stopped"


@dataclass(frozen=True, slots=True)
class Cell:
    """`role` is what the cell's agent reports, `desired_role` what it was last told."""

    index: int
    is_core: bool
    role: str
    desired_role: str
    epoch: int = 1
    weight_version: int = 0
    evaluation: int | None = None  # reserved for this evaluation
    num_calls: int = 0
    num_kv_tokens: int = 0
    role_since_s: float | None = None
    last_claim_s: float | None = None  # newest claim in the batch in progress
    num_uncounted: int = 0  # micro-steps it has claimed and not yet handed in
    to_training_s: float | None = None  # measured mean duration of a switch; None: not measured yet
    to_rollout_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReadyGroup:
    """A usable group that waits for its batch."""

    id: int
    ready_at_s: float


@dataclass(frozen=True, slots=True)
class Burst:
    """A burst that still has groups which are neither consumed nor void. `ready` is in ready order."""

    number: int
    version: int  # weight version at dispatch
    max_staleness: int
    groups_per_batch: int
    num_unfinished: int
    num_admitted: int  # in the batch in progress
    ready: tuple[ReadyGroup, ...] = ()
    settled_at_s: float = 0.0  # when its newest group became ready or void

    @property
    def outstanding(self) -> int:
        """Groups neither consumed nor void."""
        return self.num_unfinished + self.num_admitted + len(self.ready)


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch in progress: open, or sealed and not yet stepped."""

    number: int
    burst: int
    version: int
    sealed: bool
    num_groups: int
    num_unclaimed: int
    num_uncounted: int  # claimed, not counted
    num_counted: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The evaluation in progress."""

    number: int
    version: int
    num_waiting: int  # executions not yet told to start
    num_running: int  # told to start and not finished


@dataclass(frozen=True, slots=True)
class Override:
    """A person's word (docs/algorithms.md §9). `value` holds a role for `pin`; name and number for `setting`."""

    id: int
    kind: str
    expires_at_s: float
    cell_index: int | None = None
    role: str = ""
    name: str = ""
    number: float = 0.0
    unsafe: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """Measured work of the run; None, or nothing, before the first measurement."""

    micro_step_s: float | None = None
    micro_steps_per_group: float | None = None
    step_s: float | None = None  # shortest of the last intervals between optimizer steps
    group_s: tuple[float, ...] = ()  # seconds from dispatch to complete of the newest groups: evenly spaced quantiles


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything `decide` may look at."""

    taken_at_s: float
    policy_kind: str
    version: int
    counters: Counters
    settings: Settings
    cells: tuple[Cell, ...]
    bursts: tuple[Burst, ...] = ()  # oldest first
    batch: Batch | None = None
    evaluation: Evaluation | None = None
    evaluated: tuple[int, ...] = ()  # versions that have an evaluation, in progress or done
    overrides: tuple[Override, ...] = ()
    work: Work = field(default_factory=Work)
    next_burst: int = 0
    next_evaluation: int = 0
    num_void_in_a_row: int = 0
    dispatch_held: bool = False
    paused: bool = False

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = to_json(self)
        return result

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Snapshot:
        return from_json(cls, data)
