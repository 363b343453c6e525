"""What a simulated world is made of: cells, groups, bursts, the batch in progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import compress
from operator import itemgetter

from scheduler.core import snapshot as facts
from scheduler.simulator.core.pool import Execution, Launch
from scheduler.simulator.core.workload import Drawn


@dataclass(slots=True)
class SimCell:
    index: int
    is_core: bool
    role: str = facts.ROLLOUT
    desired_role: str = facts.ROLLOUT
    epoch: int = 1
    weight_version: int = 0
    evaluation: int | None = None
    role_since_s: float = 0.0
    last_claim_s: float | None = None
    computing: bool = False
    num_uncounted: int = 0
    to_training_s: float | None = None
    to_rollout_s: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)  # by role, up to role_since_s; and "computing"
    lane: list[tuple[float, str]] = field(default_factory=list)  # every change of role

    @classmethod
    def fresh(cls, index: int, version: int, now_s: float) -> SimCell:
        """In rollout from now on; the first is the core."""
        lane = [(now_s, facts.ROLLOUT)]
        return cls(index, index == 0, weight_version=version, role_since_s=now_s, lane=lane)

    @property
    def serves(self) -> bool:
        return self.role == self.desired_role == facts.ROLLOUT and self.evaluation is None

    def become(self, role: str, now_s: float) -> None:
        """Change role, and book the time spent in the one before."""
        self.seconds[self.role] = self.seconds.get(self.role, 0.0) + now_s - self.role_since_s
        self.role, self.role_since_s = role, now_s
        self.lane.append((now_s, role))

    def snapshot(self, num_calls: int) -> facts.Cell:
        return facts.Cell(
            index=self.index,
            is_core=self.is_core,
            role=self.role,
            desired_role=self.desired_role,
            epoch=self.epoch,
            weight_version=self.weight_version,
            evaluation=self.evaluation,
            num_calls=num_calls,
            role_since_s=self.role_since_s,
            last_claim_s=self.last_claim_s,
            num_uncounted=self.num_uncounted,
            to_training_s=self.to_training_s,
            to_rollout_s=self.to_rollout_s,
        )


@dataclass(slots=True)
class SimGroup:
    """A group and what its executions have left behind."""

    id: int
    burst: SimBurst
    drawn: Drawn
    num_owed: int
    executions: list[Execution] = field(default_factory=list)
    settled_s: float = 0.0
    state: str = "dispatched"
    resumed_s: float | None = None  # launch of its first execution, where the world began later

    def working(self) -> list[Execution]:
        """Executions that give training work."""
        works = self.drawn.works
        return self.executions if all(works) else list(compress(self.executions, works))

    def longest(self) -> list[tuple[Launch, float]]:
        """What the longest of its executions needs, for each launch."""
        launches = [execution.launch for execution in self.executions]
        if launches.count(launches[0]) == len(launches):
            return [(launches[0], max(self.drawn.seconds))]
        by_length = sorted(zip(self.drawn.seconds, launches, strict=True), key=itemgetter(0))
        return list({launch: seconds for seconds, launch in by_length}.items())

    def num_micro_steps(self, per_group: int) -> int:
        """Those of a whole group, less what executions without training work save; at least one."""
        return max(1, round(per_group * sum(self.drawn.works) / len(self.drawn.works)))

    @property
    def started_s(self) -> float:
        """Launch of its first execution; -1 before it."""
        if self.resumed_s is not None:
            return self.resumed_s
        first = self.executions[0]
        return first.launch.at_s if hasattr(first, "launch") else -1.0


@dataclass(slots=True)
class SimBurst:
    number: int
    version: int
    max_staleness: int
    groups_per_batch: int
    num_unfinished: int
    num_admitted: int = 0
    ready: dict[int, facts.ReadyGroup] = field(default_factory=dict)  # by group, in ready order
    settled_s: float = 0.0

    @property
    def outstanding(self) -> int:
        return self.num_unfinished + self.num_admitted + len(self.ready)

    def snapshot(self) -> facts.Burst:
        return facts.Burst(
            number=self.number,
            version=self.version,
            max_staleness=self.max_staleness,
            groups_per_batch=self.groups_per_batch,
            num_unfinished=self.num_unfinished,
            num_admitted=self.num_admitted,
            ready=tuple(self.ready.values()),
            settled_at_s=self.settled_s,
        )


@dataclass(slots=True)
class SimBatch:
    number: int
    burst: int
    version: int
    opened_s: float
    sealed: bool = False
    stepping: bool = False
    groups: list[SimGroup] = field(default_factory=list)
    launch_versions: list[int] = field(default_factory=list)  # of the executions that it trains
    num_micro_steps: int = 0  # of all its groups
    num_unclaimed: int = 0
    num_claimed: int = 0
    num_counted: int = 0

    def snapshot(self) -> facts.Batch:
        return facts.Batch(
            number=self.number,
            burst=self.burst,
            version=self.version,
            sealed=self.sealed,
            num_groups=len(self.groups),
            num_unclaimed=self.num_unclaimed,
            num_uncounted=self.num_claimed,
            num_counted=self.num_counted,
        )


@dataclass(slots=True)
class SimEvaluation:
    number: int
    version: int
    num_waiting: int
    num_running: int = 0

    def snapshot(self) -> facts.Evaluation:
        return facts.Evaluation(self.number, self.version, self.num_waiting, self.num_running)
