"""What a world counts while it runs, and what comes out of the counts at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from scheduler.core import snapshot as facts
from scheduler.core.settings import Settings
from scheduler.core.supply import NUM_GROUPS, NUM_INTERVALS, quantiles
from scheduler.simulator.core.parts import SimBatch, SimCell, SimGroup
from scheduler.simulator.core.pool import Execution, Pool
from scheduler.simulator.core.result import Bounds, Result, Step
from scheduler.simulator.core.workload import HOUR_S, Workload

#: A point of the waterlevel series for each change of at least this share of a cell's places.
WATER_STEP = 1 / 16
#: Four hours less a millisecond: a group that times out after exactly four hours counts as long in spite of rounding.
LONG_QUERY_S = 4 * HOUR_S - 1e-3


@dataclass(frozen=True, slots=True)
class Counted:
    """Training work that was measured before a world began."""

    computed_s: float = 0.0
    num_computed: float = 0.0
    micro_steps: float = 0.0
    num_groups: int = 0
    group_s: tuple[float, ...] = ()  # seconds that complete groups took, oldest first
    step_times_s: tuple[float, ...] = ()  # when the last optimizer steps ended, on the run's clock


@dataclass
class Tally:
    settings: Settings
    workload: Workload
    before: Counted = field(default_factory=Counted)
    switches: dict[str, int] = field(default_factory=lambda: {"to_training": 0, "to_rollout": 0})
    num_failures: int = 0
    num_failures_since_step: int = 0
    num_executions: int = 0
    num_timeouts: int = 0
    execution_s: float = 0.0
    query_s: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    staleness: Counter[int] = field(default_factory=Counter)
    sampled_version: float = 0.0  # sum over trained executions of the mean version of their tokens
    trained_version: float = 0.0
    computed_s: float = 0.0
    num_computed: int = 0
    steps: list[Step] = field(default_factory=list)
    water_points: list[tuple[float, int]] = field(default_factory=list)
    work_s: float = 0.0  # rollout work of the consumed groups, execution-seconds at full load
    micro_steps: int = 0
    chain_s: dict[int, float] = field(default_factory=dict)  # by version: see `stepped`

    @property
    def water_step(self) -> float:
        return WATER_STEP * self.settings.concurrency_per_cell

    def water(self, now_s: float, waterlevel: int) -> None:
        points = self.water_points
        if not points or abs(points[-1][1] - waterlevel) >= self.water_step:
            points.append((now_s, waterlevel))

    def ended(self, execution: Execution, timed_out: bool, now_s: float) -> None:
        self.num_executions += 1
        if timed_out:
            self.num_timeouts += 1
        self.execution_s += now_s - execution.launch.at_s

    def settled(self, group: SimGroup) -> None:
        self.outcomes[group.state] += 1
        self.query_s.append(group.settled_s - group.started_s)

    def admitted(self, group: SimGroup, batch: SimBatch) -> None:
        working = group.working()
        self.sampled_version = sum([execution.mean_version for execution in working], self.sampled_version)
        self.trained_version += batch.version * len(working)
        versions = [execution.launch.version for execution in working]
        for version in set(versions):
            self.staleness[batch.version - version] += versions.count(version)
        batch.launch_versions += versions

    def computed(self, seconds: float) -> None:
        self.computed_s += seconds
        self.num_computed += 1

    def stepped(self, batch: SimBatch, now_s: float) -> None:
        """Book a step, and its longest chain: executions, each launched after the step that trained the one before, at
        the speed of an empty cell. No schedule with these launches gets to the step sooner.
        """
        self.num_failures_since_step = 0
        best, limit_s = self.workload.slowdown(0.0), self.workload.harness_timeout_s
        chain_s, longest_s = self.chain_s, self.chain_s.get(batch.version, 0.0)
        for group in batch.groups:
            seconds = group.drawn.seconds
            self.work_s += sum(seconds) if max(seconds) <= limit_s else sum(min(s, limit_s) for s in seconds)
            for launch, alone_s in group.longest():
                if launch.at_s >= 0.0:  # not taken over from a run that went on
                    longest_s = max(longest_s, chain_s.get(launch.version, 0.0) + min(best * alone_s, limit_s))
        chain_s[batch.version + 1] = longest_s
        self.micro_steps += batch.num_micro_steps
        num_trained = len(batch.launch_versions)
        age = batch.version * num_trained - sum(batch.launch_versions)
        self.steps.append(Step(batch.number, now_s, len(batch.groups), age / num_trained if num_trained else 0.0))

    def work(self) -> facts.Work:
        """What the live scheduler would have measured by now."""
        before = self.before
        num_computed = before.num_computed + self.num_computed
        num_groups = before.num_groups + sum(step.num_groups for step in self.steps)
        return facts.Work(
            micro_step_s=(before.computed_s + self.computed_s) / num_computed if num_computed else None,
            micro_steps_per_group=(before.micro_steps + self.micro_steps) / num_groups if num_groups else None,
            step_s=self.step_s(),
            group_s=quantiles([*before.group_s, *self.query_s][-NUM_GROUPS:]),
        )

    def step_s(self) -> float | None:
        """Shortest of the last intervals between optimizer steps."""
        times = [*self.before.step_times_s, *(step.finished_s for step in self.steps)][-NUM_INTERVALS - 1 :]
        return min((later - sooner for sooner, later in pairwise(times)), default=None)

    def bounds(self, micro_step_s: float) -> Bounds:
        """Per step."""
        settings, num_steps = self.settings, max(1, len(self.steps))
        rollout_s = self.work_s / settings.concurrency_per_cell
        training_s = self.micro_steps * micro_step_s
        return Bounds(
            work_h=(rollout_s + training_s) / settings.cells / num_steps / HOUR_S,
            chain_h=max(self.chain_s.values(), default=0.0) / num_steps / HOUR_S,
        )

    def result(
        self, *, policy: str, seed: int, began_s: float, now_s: float, cells: list[SimCell], pool: Pool,
        num_groups: int, events: int, evaluations: int, micro_step_s: float,
    ) -> Result:  # fmt: skip
        for cell in cells:
            cell.become(cell.role, now_s)
            cell.lane.pop()
        trained = sum(self.staleness.values())
        by_role: Counter[str] = Counter()
        for cell in cells:
            by_role.update(cell.seconds)
        spent_s = now_s - began_s
        all_s = max(spent_s * len(cells), 1e-9)
        consumed = sum(step.num_groups for step in self.steps)
        return Result(
            policy=policy,
            seed=seed,
            hours=spent_s / HOUR_S,
            steps=len(self.steps),
            cells=len(cells),
            utilisation={
                "rollout": by_role[facts.ROLLOUT] / all_s,
                "rollout_load": pool.load_s / all_s,
                "training": by_role[facts.TRAINING] / all_s,
                "training_busy": self.computed_s / all_s,
                "switching": by_role[facts.SWITCHING] / all_s,
                "lost": by_role[facts.LOST] / all_s,
            },
            execution_h=self.execution_s / max(1, self.num_executions) / HOUR_S,
            query_h=sum(self.query_s) / max(1, len(self.query_s)) / HOUR_S,
            query_ge_4h=sum(s >= LONG_QUERY_S for s in self.query_s) / max(1, len(self.query_s)),
            timeout_share=self.num_timeouts / max(1, self.num_executions),
            mean_staleness=sum(d * n for d, n in self.staleness.items()) / max(1, trained),
            mean_token_staleness=(self.trained_version - self.sampled_version) / max(1, trained),
            staleness={d: n / trained for d, n in sorted(self.staleness.items())},
            max_staleness=max(self.staleness, default=0),
            switches=dict(self.switches),
            groups={
                "consumed": consumed,
                "void": self.outcomes["void"],
                "unused": num_groups - consumed - self.outcomes["void"],
            },
            executions=self.num_executions,
            events=events,
            evaluations=evaluations,
            bounds=self.bounds(micro_step_s),
            step_rows=self.steps,
            waterlevel=self.water_points,
            lanes=[cell.lane for cell in cells],
        )
