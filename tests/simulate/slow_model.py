"""A second, slow simulator in SimPy, written apart from the first: the two must agree on simple cases.

It reads the values of Settings and Workload and calls nothing of `scheduler.core`. It knows whole runs of `colocate`,
`async-barrier` and `async-streamed` on any number of cells, and `elastic` on one; no evaluations, no failures. Where
the simulator keeps a clock for all executions, this model takes from every execution what it did since the last
change; where the simulator asks `decide`, this model has the sentences of the design as code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import simpy

from scheduler.core.settings import Settings
from scheduler.simulator.core import Workload

Process = Generator[simpy.Event, Any, None]
#: Gives the seconds, at full load, of the executions of the group with this number.
Durations = Callable[[int], list[float]]
NEARLY_S = 1e-7
TIE_S = 1e-3


@dataclass(eq=False)
class Job:
    """An execution."""

    group: Group
    left_s: float  # at full load
    launch_version: int = -1
    served_s: float = 0.0
    started_s: float = 0.0


@dataclass(eq=False)
class Group:
    burst: Burst
    unfinished: int
    jobs: list[Job] = field(default_factory=list)
    ready_s: float = 0.0


@dataclass(eq=False)
class Burst:
    unfinished: int
    ready: list[Group] = field(default_factory=list)
    admitted: int = 0

    @property
    def outstanding(self) -> int:
        return self.unfinished + len(self.ready) + self.admitted


@dataclass
class Outcome:
    """What both models are compared by. Times in seconds."""

    end_s: float
    steps_s: list[float]
    staleness: list[float]  # mean of each step
    execution_s: float
    num_timeouts: int
    ends_s: list[float]  # of executions

    @property
    def has_tie(self) -> bool:
        """An execution ended at the instant of a step: which comes first is not defined."""
        return any(abs(end_s - step_s) < TIE_S for end_s in self.ends_s for step_s in self.steps_s)


class SlowModel:
    def __init__(self, settings: Settings, workload: Workload, policy_kind: str, durations: Durations) -> None:
        assert policy_kind in ("colocate", "async-barrier", "async-streamed") or settings.cells == 1
        self.s, self.w, self.kind, self.durations = settings, workload, policy_kind, durations
        self.env = simpy.Environment()
        self.kick = self.env.event()
        self.running: list[Job] = []
        self.waiting: list[Job] = []
        self.bursts: list[Burst] = []
        self.num_groups = self.version = self.num_timeouts = self.num_ended = 0
        self.execution_s = self.accounted_s = self.stall_s = 0.0
        self.steps_s: list[float] = []
        self.ends_s: list[float] = []
        self.staleness: list[float] = []
        self.batch: list[Group] | None = None
        self.sealed = self.held = False
        self.unclaimed = self.uncounted = self.computing = 0
        self.work = self.env.event()
        self.done = self.env.event()
        split = policy_kind.startswith("async")
        self.num_trainers = settings.cells
        if split:
            wanted = settings.training_cells or settings.cells // 2
            self.num_trainers = max(1, min(wanted, settings.cells - 1))
        self.serving = settings.cells - self.num_trainers if split else settings.cells
        factor = 1.0 if settings.j_max <= 0 else 1.0 - workload.trajectories_q**settings.j_max
        factor /= 1.0 - workload.trajectories_q**5
        per_batch = settings.groups_per_batch * workload.micro_steps_per_group
        self.micro_step_s = 3600.0 * workload.train_cell_h * factor / per_batch

    def run(self) -> Outcome:
        env = self.env
        env.process(self._rollout())
        if self.kind.startswith("async"):
            self._dispatch()
            for number in range(self.num_trainers):
                env.process(self._cell(env.timeout(self.w.to_training_s), core=number == 0))
        else:
            env.process(self._turns())
        self._settle()
        env.run(until=self.done)
        return Outcome(
            env.now, self.steps_s, self.staleness, self.execution_s / self.num_ended, self.num_timeouts, self.ends_s
        )

    # Rollout: processor sharing

    def _speed(self) -> float:
        """Seconds at full load that an execution does per second."""
        if not self.serving or not self.running:
            return 0.0
        load = len(self.running) / (self.serving * self.s.concurrency_per_cell)
        tokens = self.w.alpha + (1.0 - self.w.alpha) * min(load, 1.0)
        time = self.w.environment_share + (1.0 - self.w.environment_share) * tokens
        return 1.0 / (time * max(load, 1.0))

    def _account(self) -> None:
        """Give every running execution what it did since the last change."""
        elapsed, self.accounted_s = self.env.now - self.accounted_s, self.env.now
        if not self.serving or not self.running:
            return
        lost = min(elapsed, self.stall_s)
        self.stall_s -= lost
        speed = self._speed()
        for job in self.running:
            job.served_s += elapsed
            job.left_s -= (elapsed - lost) * speed

    def _changed(self) -> None:
        kick, self.kick = self.kick, self.env.event()
        kick.succeed()

    def _rollout(self) -> Process:
        while True:
            speed = self._speed()
            if speed:
                finish = self.stall_s + min(job.left_s for job in self.running) / speed
                timeout = self.w.harness_timeout_s - max(job.served_s for job in self.running)
                yield self.env.timeout(max(0.0, min(finish, timeout))) | self.kick
            else:
                yield self.kick
            self._account()
            if self.serving:
                self._take_out_ended()

    def _take_out_ended(self) -> None:
        for job in list(self.running):
            if not self.serving:
                return  # the one before made a batch full: those that end at the same instant are held
            late = job.served_s >= self.w.harness_timeout_s - NEARLY_S
            if job.left_s > NEARLY_S and not late:
                continue
            self.running.remove(job)
            self.num_ended += 1
            self.num_timeouts += job.left_s > NEARLY_S
            self.execution_s += self.env.now - job.started_s
            self.ends_s.append(self.env.now)
            job.group.unfinished -= 1
            if not job.group.unfinished:
                job.group.ready_s = self.env.now
                job.group.burst.unfinished -= 1
                job.group.burst.ready.append(job.group)
            self._settle()

    # What happens when something is new

    def _settle(self) -> None:
        self._dispatch()
        if self.kind.startswith("async"):
            self._fill()
        elif not self.held and self._due():
            self._account()
            self.held, self.serving = True, 0
        self._launch()
        self._wake()

    def _dispatch(self) -> None:
        size = self.s.groups_per_batch
        while True:
            self.bursts = [burst for burst in self.bursts if burst.outstanding]
            groups = sum(burst.outstanding for burst in self.bursts)
            batches = sum(ceil(burst.outstanding / size) for burst in self.bursts)
            left = self.s.steps - self.version - batches
            if left <= 0 or groups > self.s.burst_lead * size or batches > self.s.burst_lead:
                return
            burst = Burst(min(self.s.burst_batches, left) * size)
            for _ in range(burst.unfinished):
                group = Group(burst, self.s.executions_per_group)
                group.jobs = [Job(group, seconds) for seconds in self.durations(self.num_groups)]
                self.num_groups += 1
                self.waiting += group.jobs
            self.bursts.append(burst)

    def _launch(self) -> None:
        self._account()
        while self.waiting and len(self.running) < self.serving * self.s.concurrency_per_cell:
            job = self.waiting.pop(0)
            job.launch_version, job.started_s = self.version, self.env.now
            self.running.append(job)
        self._changed()

    # Batches

    def _full(self) -> bool:
        """A whole batch is ready, or all that the oldest burst can still give."""
        if not self.bursts or not self.bursts[0].ready:
            return False
        return len(self.bursts[0].ready) >= self.s.groups_per_batch or not self.bursts[0].unfinished

    def _fill(self) -> None:
        """Open when there is enough; take what is ready; seal when no more can come."""
        if self.version >= self.s.steps:
            return
        if self.batch is None:
            if not (self._full() if self.kind != "async-streamed" else self.bursts and self.bursts[0].ready):
                return
            self.batch, self.sealed = [], False
        burst = self.bursts[0]
        while burst.ready and len(self.batch) < self.s.groups_per_batch and not self.sealed:
            self.batch.append(burst.ready.pop(0))
            burst.admitted += 1
            self.unclaimed += self.w.micro_steps_per_group
            self.uncounted += self.w.micro_steps_per_group
        self.sealed = self.sealed or len(self.batch) == self.s.groups_per_batch or not burst.unfinished

    def _cell(self, there: simpy.Event, *, core: bool) -> Process:
        """A cell of a fixed split: micro-steps whenever there are any; the core steps."""
        yield there
        while True:
            if self.unclaimed:
                yield from self._micro_step()
            elif core and self.batch is not None and self.sealed and not self.uncounted:
                yield from self._step()
            else:
                yield self.work

    def _micro_step(self) -> Process:
        self.unclaimed -= 1
        self.computing += 1
        yield self.env.timeout(self.micro_step_s / self.w.dp_efficiency ** (self.computing - 1))
        self.computing -= 1
        self.uncounted -= 1
        if not self.uncounted:
            self._wake()

    def _wake(self) -> None:
        work, self.work = self.work, self.env.event()
        work.succeed()

    def _step(self) -> Process:
        yield self.env.timeout(self.w.commit_s)
        assert self.batch is not None
        ages = [self.version - job.launch_version for group in self.batch for job in group.jobs]
        self.staleness.append(sum(ages) / len(ages))
        self.steps_s.append(self.env.now)
        self.batch[0].burst.admitted = 0
        self.batch = None
        self.version += 1
        self._account()
        if self.running and self.serving:
            self.stall_s += self.w.update_stall_s
        if self.version == self.s.steps:
            self.done.succeed()
            return
        self._settle()

    # All cells in turn: colocate, and elastic on one cell

    def _turns(self) -> Process:
        """Roll out until a batch is due, hold everything, train as long as batches are due, go on."""
        while not self.done.triggered:
            while not self.held:
                yield self.work
            if self.kind == "elastic":
                yield self.env.timeout(max(0.0, self._supplied_s() + self.s.supply_hold_s - self.env.now))
            self._fill()
            yield self.env.timeout(self.w.to_training_s)
            while True:
                cells = [self.env.process(self._train_out()) for _ in range(self.s.cells)]
                yield self.env.all_of(cells)
                yield from self._step()
                if self.done.triggered or not self._due():
                    break
                self._fill()
            if self.done.triggered:
                return
            yield self.env.timeout(self.w.to_rollout_s)
            self._account()
            self.held, self.serving = False, self.s.cells
            if self.running:
                self.stall_s += self.w.resume_stall_s
            self._settle()

    def _due(self) -> bool:
        """Colocate: a full batch. Elastic on one cell: nothing is owed, so everything is there."""
        if self.kind == "colocate":
            return self._full()
        return not self.running and not self.waiting and self._full()

    def _supplied_s(self) -> float:
        """When enough groups were ready, of a burst that is ready as a whole."""
        needed = max(1, ceil(self.s.rho_min * self.s.groups_per_batch - 1e-9))
        times = sorted(group.ready_s for group in self.bursts[0].ready)
        return times[min(needed, len(times)) - 1]

    def _train_out(self) -> Process:
        while self.unclaimed:
            yield from self._micro_step()
