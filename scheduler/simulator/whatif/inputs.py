"""What the answer to a what-if rests on, as values: the run's fit, and a snapshot of where it stands."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field

from scheduler.core.jsonform import from_json, to_json
from scheduler.core.settings import Settings
from scheduler.core.snapshot import Snapshot
from scheduler.simulator.core import Workload
from scheduler.simulator.core.tally import Counted


@dataclass(frozen=True, slots=True)
class One:
    """An execution under way. `seconds`: its work at full load, all of it when it has ended, else what is done so far.

    `elapsed_s` is the time that this took, held time excluded.
    """

    state: str  # as in scheduler.simulator.core.resume
    seconds: float = 0.0
    elapsed_s: float = 0.0
    verdict_in_s: float = 0.0
    votes: bool = True
    works: bool = True
    launch_version: int = 0


@dataclass(frozen=True, slots=True)
class LiveGroup:
    number: int
    burst: int
    state: str
    executions: tuple[One, ...]
    started_s: float = -1.0
    settled_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Left:
    """Seconds that something on a cell still takes."""

    cell: int
    left_s: float
    whole_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Inputs:
    """`recorded`: seconds per execution of each complete group. Without a `snapshot` the run can only be asked whole.

    Times are seconds since the run's start; groups are known by their number. `num_steps` were recorded.
    """

    policy_kind: str
    settings: Settings
    workload: Workload
    recorded: tuple[tuple[float, ...], ...]
    snapshot: Snapshot | None = None
    groups: tuple[LiveGroup, ...] = ()
    num_groups: int = 0
    counted: Counted = field(default_factory=Counted)
    switches: tuple[Left, ...] = ()
    micro_steps: tuple[Left, ...] = ()
    evaluation_left_s: tuple[float, ...] = ()
    num_steps: int = 0

    def pack(self) -> bytes:
        return zlib.compress(json.dumps(to_json(self)).encode())

    @classmethod
    def unpack(cls, data: bytes) -> Inputs:
        return from_json(cls, json.loads(zlib.decompress(bytes(data))))
