"""A tiny world that obeys decisions: executions take time, cells switch, train, fail. It checks the laws as it goes.

Pure and deterministic by its random source. Not a performance model: only order and counting matter here.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from scheduler.core import snapshot as s
from scheduler.core.bursts import outstanding_groups
from scheduler.core.counters import Counters
from scheduler.core.decide import decide
from scheduler.core.decisions import Decision
from scheduler.core.policies import policy_of
from scheduler.core.settings import Settings
from scheduler.core.supply import quantiles


@dataclass
class Group:
    id: int
    burst: int
    owed: int
    votes: int = 0
    state: str = "dispatched"
    dispatched_at_s: float = 0.0
    settled_at_s: float = 0.0
    oldest_version: int = 10**9
    times_consumed: int = 0


@dataclass
class WorldCell:
    index: int
    is_core: bool
    role: str = s.ROLLOUT
    desired_role: str = s.ROLLOUT
    epoch: int = 1
    weight_version: int = 0
    evaluation: int | None = None
    role_since_s: float = 0.0
    last_claim_s: float | None = None
    computing: bool = False
    claimed: list[int] = field(default_factory=list)  # micro-steps not handed in


@dataclass
class WorldBatch:
    number: int
    burst: int
    version: int
    sealed: bool = False
    stepping: bool = False
    groups: list[int] = field(default_factory=list)
    micro_steps: list[str] = field(default_factory=list)  # unclaimed | claimed | counted


@dataclass
class WorldEvaluation:
    number: int
    version: int
    waiting: int
    running: int = 0


class Stuck(AssertionError):
    """No decision is accepted any more and the run is not finished."""


class World:
    def __init__(
        self,
        settings: Settings,
        policy_kind: str,
        random: Random,
        *,
        void_share: float = 0.0,
        failures: int = 0,
        log_sd: float = 0.8,
    ) -> None:
        self.settings, self.policy, self.random = settings, policy_of(policy_kind), random
        self.void_share, self.log_sd = void_share, log_sd
        self.now_s = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.num_events = 0
        self.version = 0
        self.dispatched = self.launched = self.finished = self.queued = 0
        self.groups: dict[int, Group] = {}
        self.waiting: list[int] = []  # group of each execution not yet launched, oldest first
        self.burst_facts: dict[int, tuple[int, int, int]] = {}  # version, max_staleness, groups_per_batch
        self.cells = [WorldCell(i, i == 0) for i in range(settings.cells)]
        self.batch: WorldBatch | None = None
        self.evaluation: WorldEvaluation | None = None
        self.evaluated: list[int] = []
        self.cancelled: list[int] = []
        self.alarm = self.done = False
        self.overrides: tuple[s.Override, ...] = ()
        self.log: list[Decision] = []
        self.steps_s: list[float] = []
        self.groups_s: list[float] = []
        self.num_switches: dict[str, int] = defaultdict(int)
        self.micro_steps_by: dict[int, int] = defaultdict(int)
        for _ in range(failures):
            self.at(random.uniform(0, 60), self.fail)

    # Time

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        self.num_events += 1
        heapq.heappush(self.events, (self.now_s + delay_s, self.num_events, action))

    def run(self, max_idle_ticks: int = 200) -> None:
        """To the end, or Stuck."""
        idle = 0
        while not self.done:
            self.settle()
            if self.done or self.alarm:
                return
            if self.events:
                self.now_s, _, action = heapq.heappop(self.events)
                action()
                idle = 0
                continue
            self.now_s += 0.5
            idle += 1
            if idle > max_idle_ticks:
                raise Stuck("\n".join(d.reason for d in decide(self.snapshot(), self.policy, self.now_s)))

    def settle(self) -> None:
        """Decide until nothing more is accepted at this instant."""
        for _ in range(20):
            snapshot = self.snapshot()
            decisions = decide(snapshot, self.policy, self.now_s)
            copy = s.Snapshot.from_json(json.loads(json.dumps(snapshot.to_json())))
            assert copy == snapshot
            assert decide(copy, self.policy, self.now_s) == decisions
            assert all(d.reason for d in decisions)
            accepted = [d for d in decisions if d.accepted]
            for decision in accepted:
                self.log.append(decision)
                getattr(self, f"do_{decision.kind}")(decision)
            self.check()
            if not accepted or self.done or self.alarm:
                return
        raise AssertionError(f"decisions do not settle: {accepted}")

    def check(self) -> None:
        assert 0 <= self.finished <= self.launched <= self.dispatched
        assert all(group.times_consumed <= 1 for group in self.groups.values())

    # What decide sees

    def snapshot(self) -> s.Snapshot:
        batch, evaluation = self.batch, self.evaluation
        return s.Snapshot(
            taken_at_s=self.now_s,
            policy_kind=self.policy.kind,
            version=self.version,
            counters=Counters(self.dispatched, self.launched, self.finished, self.queued),
            settings=self.settings,
            cells=tuple(self._cell(cell) for cell in self.cells),
            bursts=tuple(b for b in map(self._burst, sorted(self.burst_facts)) if b.outstanding),
            batch=batch
            and s.Batch(
                number=batch.number,
                burst=batch.burst,
                version=batch.version,
                sealed=batch.sealed,
                num_groups=len(batch.groups),
                num_unclaimed=batch.micro_steps.count("unclaimed"),
                num_uncounted=batch.micro_steps.count("claimed"),
                num_counted=batch.micro_steps.count("counted"),
            ),
            evaluation=evaluation
            and s.Evaluation(evaluation.number, evaluation.version, evaluation.waiting, evaluation.running),
            evaluated=tuple(self.evaluated),
            overrides=self.overrides,
            work=self._work(),
            next_burst=len(self.burst_facts),
            next_evaluation=len(self.evaluated),
            num_void_in_a_row=self._void_in_a_row(),
        )

    def _work(self) -> s.Work:
        if not self.version:
            return s.Work()
        intervals = [later - sooner for sooner, later in pairwise(self.steps_s[-9:])]
        return s.Work(1.0, 1.5, min(intervals, default=None), quantiles(self.groups_s[-50:]))

    def _cell(self, cell: WorldCell) -> s.Cell:
        measured = self.num_switches[s.TRAINING] > 0
        return s.Cell(
            index=cell.index,
            is_core=cell.is_core,
            role=cell.role,
            desired_role=cell.desired_role,
            epoch=cell.epoch,
            weight_version=cell.weight_version,
            evaluation=cell.evaluation,
            num_calls=self.launched - self.finished,
            role_since_s=cell.role_since_s,
            last_claim_s=cell.last_claim_s,
            num_uncounted=len(cell.claimed),
            to_training_s=1.0 if measured else None,
            to_rollout_s=1.0 if measured else None,
        )

    def _burst(self, number: int) -> s.Burst:
        version, max_staleness, size = self.burst_facts[number]
        groups = [g for g in self.groups.values() if g.burst == number]
        ready = sorted((g for g in groups if g.state == "ready"), key=lambda g: (g.settled_at_s, g.id))
        return s.Burst(
            number=number,
            version=version,
            max_staleness=max_staleness,
            groups_per_batch=size,
            num_unfinished=sum(g.state == "dispatched" for g in groups),
            num_admitted=sum(g.state == "admitted" for g in groups),
            ready=tuple(s.ReadyGroup(g.id, g.settled_at_s) for g in ready),
            settled_at_s=max((g.settled_at_s for g in groups), default=0.0),
        )

    def _void_in_a_row(self) -> int:
        settled = sorted(
            (g for g in self.groups.values() if g.state != "dispatched"), key=lambda g: (g.settled_at_s, g.id)
        )
        count = 0
        for group in reversed(settled):
            if group.state != "void":
                break
            count += 1
        return count

    # Doing what was decided

    def do_dispatch_burst(self, decision: Decision) -> None:
        params = decision.params
        if not self.policy.mixes_bursts:
            assert outstanding_groups(self.snapshot()) <= self.settings.burst_lead * self.settings.groups_per_batch
        self.burst_facts[params.number] = (self.version, params.max_staleness, params.groups_per_batch)
        for _ in range(params.num_groups):
            group = Group(id=len(self.groups), burst=params.number, owed=params.executions_per_group)
            group.dispatched_at_s = self.now_s
            self.groups[group.id] = group
            self.waiting += [group.id] * group.owed
            self.dispatched += group.owed

    def do_launch(self, decision: Decision) -> None:
        serving = [c for c in self.cells if c.role == c.desired_role == s.ROLLOUT and c.evaluation is None]
        occupied = self.launched + self.queued - self.finished
        assert occupied + decision.params.count <= len(serving) * self.settings.concurrency_per_cell
        for _ in range(decision.params.count):
            group = self.groups[self.waiting.pop(0)]
            group.oldest_version = min([group.oldest_version, *(c.weight_version for c in serving)])
            self.queued += 1
            self.at(self.random.uniform(0, 0.3), lambda group=group: self.start(group))

    def start(self, group: Group) -> None:
        self.queued -= 1
        self.launched += 1
        self.at(self.random.lognormvariate(1.5, self.log_sd), lambda: self.finish(group))

    def finish(self, group: Group) -> None:
        self.finished += 1
        group.owed -= 1
        group.votes += self.random.random() >= self.void_share
        if group.owed == 0:
            group.state = "ready" if group.votes else "void"
            group.settled_at_s = self.now_s
            self.groups_s.append(self.now_s - group.dispatched_at_s)

    def do_leave_rollout(self, decision: Decision) -> None:
        cell = self.cells[decision.cell_index]
        serving = [c for c in self.cells if c.role == c.desired_role == s.ROLLOUT and c.evaluation is None]
        assert cell in serving
        if self.policy.kind.startswith("elastic") and not decision.params.unsafe:
            waterlevel = self.dispatched - self.finished
            assert (len(serving) - 1) * self.settings.concurrency_per_cell >= waterlevel, "capacity rule"
            assert waterlevel == 0 or len(serving) - 1 >= self.settings.min_rollout_cells
        self.switch(cell, s.TRAINING)

    def do_return_to_rollout(self, decision: Decision) -> None:
        cell = self.cells[decision.cell_index]
        assert cell.role == s.TRAINING
        self.switch(cell, s.ROLLOUT)

    def switch(self, cell: WorldCell, role: str) -> None:
        cell.desired_role = role
        epoch = cell.epoch
        if not cell.computing:
            self._begin_switch(cell, epoch)

    def _begin_switch(self, cell: WorldCell, epoch: int) -> None:
        if cell.epoch != epoch or cell.role == s.SWITCHING:
            return
        self.hand_in(cell)
        cell.role = s.SWITCHING
        self.at(self.random.uniform(0.2, 2.0), lambda: self._end_switch(cell, epoch))

    def _end_switch(self, cell: WorldCell, epoch: int) -> None:
        if cell.epoch != epoch:
            return
        cell.role, cell.role_since_s = cell.desired_role, self.now_s
        self.num_switches[cell.role] += 1
        if cell.role == s.ROLLOUT:
            cell.weight_version = self.version
        else:
            self.train(cell)

    def do_drain_cell(self, decision: Decision) -> None:
        cell = self.cells[decision.cell_index]
        self.hand_in(cell)
        cell.epoch += 1
        cell.computing = False
        cell.role = cell.desired_role = s.STOPPED

    def do_start_cell(self, decision: Decision) -> None:
        cell = self.cells[decision.cell_index]
        cell.role, cell.desired_role = s.STARTING, s.ROLLOUT
        epoch = cell.epoch
        self.at(1.0, lambda: self._end_switch(cell, epoch))

    # Training

    def do_open_batch(self, decision: Decision) -> None:
        assert self.batch is None
        version, bound, _ = self.burst_facts[decision.params.burst]
        assert self.version - version <= bound, "staleness bound"
        self.batch = WorldBatch(decision.params.number, decision.params.burst, self.version)

    def do_admit_group(self, decision: Decision) -> None:
        group, batch = self.groups[decision.params.group], self.batch
        assert batch is not None
        assert group.state == "ready"
        assert group.burst == batch.burst or (self.policy.mixes_bursts and group.burst > batch.burst)
        assert not batch.sealed
        assert batch.version - group.oldest_version <= self.burst_facts[group.burst][1], "staleness of a token"
        group.state = "admitted"
        batch.groups.append(group.id)
        batch.micro_steps += ["unclaimed"] * self.random.randint(1, 2)
        self.wake_trainers()

    def do_seal_batch(self, decision: Decision) -> None:
        assert self.batch is not None
        assert self.batch.groups
        self.batch.sealed = True
        self.wake_trainers()

    def wake_trainers(self) -> None:
        for cell in self.cells:
            if cell.role == s.TRAINING:
                self.at(0.0, lambda cell=cell: self.train(cell))

    def train(self, cell: WorldCell) -> None:
        """Claim one micro-step, hand in when none is left of a sealed batch, step when all is counted."""
        batch = self.batch
        if cell.role != s.TRAINING or cell.desired_role != s.TRAINING or cell.computing or batch is None:
            return
        if "unclaimed" in batch.micro_steps:
            number = batch.micro_steps.index("unclaimed")
            batch.micro_steps[number] = "claimed"
            cell.claimed.append(number)
            cell.last_claim_s = self.now_s
            cell.computing = True
            epoch = cell.epoch
            self.at(self.random.uniform(0.2, 2.0), lambda: self._computed(cell, epoch))
        elif batch.sealed:
            self.hand_in(cell)
            self.try_step()

    def _computed(self, cell: WorldCell, epoch: int) -> None:
        if cell.epoch != epoch:
            return
        cell.computing = False
        if cell.desired_role == s.TRAINING:
            self.train(cell)
        else:
            self._begin_switch(cell, epoch)

    def hand_in(self, cell: WorldCell) -> None:
        if self.batch is None:
            return
        for number in cell.claimed:
            assert self.batch.micro_steps[number] == "claimed"
            self.batch.micro_steps[number] = "counted"
            self.micro_steps_by[cell.index] += 1
        cell.claimed.clear()
        self.at(0.0, self.try_step)

    def try_step(self) -> None:
        batch, core = self.batch, self.cells[0]
        if batch is None or not batch.sealed or batch.stepping or core.role != s.TRAINING:
            return
        if core.desired_role == s.TRAINING and not core.computing and set(batch.micro_steps) <= {"counted"}:
            batch.stepping = True
            epoch = core.epoch
            self.at(self.random.uniform(0.1, 0.5), lambda: self._stepped(batch, epoch))

    def _stepped(self, batch: WorldBatch, epoch: int) -> None:
        core = self.cells[0]
        if core.epoch != epoch or core.role != s.TRAINING:
            batch.stepping = False
            return
        self.version += 1
        self.steps_s.append(self.now_s)
        assert self.version == batch.number
        for number in batch.groups:
            self.groups[number].state = "consumed"
            self.groups[number].times_consumed += 1
        self.batch = None
        for cell in self.cells:
            self.at(self.random.uniform(0, 0.5), lambda cell=cell, epoch=cell.epoch: self._update(cell, epoch))

    def _update(self, cell: WorldCell, epoch: int) -> None:
        if cell.epoch == epoch and cell.role == s.ROLLOUT and cell.evaluation is None:
            cell.weight_version = self.version

    # Evaluation

    def do_start_evaluation(self, decision: Decision) -> None:
        params = decision.params
        self.evaluation = WorldEvaluation(params.number, params.version, params.num_tasks)
        self.evaluated.append(params.version)
        self.do_reserve_cell(decision)

    def do_reserve_cell(self, decision: Decision) -> None:
        cell = self.cells[decision.cell_index]
        cell.evaluation = decision.params.number
        if cell.desired_role != s.ROLLOUT:
            self.switch(cell, s.ROLLOUT)

    def do_launch_evaluation(self, decision: Decision) -> None:
        evaluation, cell = self.evaluation, self.cells[decision.cell_index]
        assert evaluation is not None
        assert cell.weight_version == evaluation.version
        for _ in range(decision.params.count):
            evaluation.waiting -= 1
            evaluation.running += 1
            self.at(self.random.uniform(0.5, 3.0), lambda: self._evaluated_one(evaluation))

    def _evaluated_one(self, evaluation: WorldEvaluation) -> None:
        if self.evaluation is not evaluation:
            return
        cell = next((c for c in self.cells if c.evaluation == evaluation.number), None)
        assert cell is None or cell.role != s.ROLLOUT or cell.weight_version == evaluation.version
        evaluation.running -= 1
        if evaluation.running == evaluation.waiting == 0:
            self._end_evaluation()

    def _end_evaluation(self) -> None:
        for cell in self.cells:
            if cell.evaluation is not None:
                cell.evaluation = None
                self._update(cell, cell.epoch)
        self.evaluation = None

    def do_cancel_evaluation(self, decision: Decision) -> None:
        self.cancelled.append(decision.params.number)
        self._end_evaluation()

    # Faults and ends

    def fail(self) -> None:
        """A cell dies: its claims return to the ledger; with the core, the open batch's ledger is reset."""
        cell = self.random.choice(self.cells)
        if cell.role in (s.LOST, s.STARTING):
            return
        if self.batch is not None:
            lost = cell.claimed if not cell.is_core else list(range(len(self.batch.micro_steps)))
            for number in lost:
                self.batch.micro_steps[number] = "unclaimed"
            for other in self.cells if cell.is_core else [cell]:
                other.claimed.clear()
            self.batch.stepping = self.batch.stepping and not cell.is_core
            self.wake_trainers()
        cell.epoch += 1
        cell.role, cell.desired_role, cell.evaluation, cell.computing = s.LOST, s.ROLLOUT, None, False
        epoch = cell.epoch
        self.at(self.random.uniform(1, 10), lambda: self._end_switch(cell, epoch))

    def do_raise_alarm(self, decision: Decision) -> None:
        self.alarm = True

    def do_finish_run(self, decision: Decision) -> None:
        assert self.version == self.settings.steps
        self.done = True
