"""A world that begins in the middle of a run: at a snapshot, with executions under way (docs/algorithms.md §12).

    world = Resumed(moment, settings, workload, "elastic", seed=1)
    world.run()                 # to the end, or world.run(until=lambda w: w.version >= 12)
    result = world.result(1)    # counted from the moment on

Settings may differ from those that the run had: the same burst, groups, batch and executions, decided otherwise from
then on. Cells beyond those of the snapshot begin in rollout; those that are taken away leave their claims behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from scheduler.core import snapshot as facts
from scheduler.core.decisions import Decision
from scheduler.core.settings import Settings
from scheduler.core.supply import NUM_GROUPS, NUM_INTERVALS, quantiles
from scheduler.simulator.core.parts import SimBatch, SimBurst, SimCell, SimEvaluation, SimGroup
from scheduler.simulator.core.pool import INFINITE, Execution, Launch
from scheduler.simulator.core.result import Result
from scheduler.simulator.core.tally import Tally
from scheduler.simulator.core.workload import Draw, Drawn, Workload
from scheduler.simulator.core.world import World

WAITING = "waiting"
RUNNING = "running"
EVALUATING = "evaluating"
FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Underway:
    """One execution of a group that is not consumed. `draw` is what it needs in all, done work included."""

    draw: Draw
    state: str
    done_s: float = 0.0  # of `draw.seconds`
    elapsed_s: float = 0.0  # since its launch, held time excluded: counts towards the timeout
    verdict_in_s: float = 0.0  # while it is evaluated
    launch_version: int = 0
    mean_version: float = 0.0  # of the tokens sampled so far


@dataclass(frozen=True, slots=True)
class GroupThen:
    """A group that is dispatched, ready or admitted. `number` counts groups in the order of dispatch."""

    number: int
    burst: int
    state: str
    executions: tuple[Underway, ...]
    started_s: float = -1.0
    settled_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Counted:
    """Training work that was measured before."""

    computed_s: float = 0.0
    num_computed: float = 0.0
    micro_steps: float = 0.0
    num_groups: int = 0
    group_s: tuple[float, ...] = ()  # seconds that complete groups took, oldest first
    step_times_s: tuple[float, ...] = ()  # when the last optimizer steps ended, on the run's clock


@dataclass(frozen=True)
class Moment:
    """A run at one instant. Times are seconds since its start; ready groups carry their number as id."""

    snapshot: facts.Snapshot
    groups: tuple[GroupThen, ...]  # in the order of dispatch
    num_groups: int  # dispatched so far, those that are gone included
    counted: Counted = field(default_factory=Counted)
    switch_left_s: Mapping[int, float] = field(default_factory=dict)  # by cell; not given: a whole switch
    micro_step_left_s: Mapping[int, tuple[float, float]] = field(default_factory=dict)  # by cell: seconds left, whole
    commit_left_s: float | None = None  # of the step that is being committed
    evaluation_left_s: tuple[float, ...] = ()  # of the evaluation's running executions
    stalled_s: float = 0.0


@dataclass
class _GoesOn(Tally):
    """What was measured before the moment still counts."""

    before: Counted = field(default_factory=Counted)

    def work(self) -> facts.Work:
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
        times = [*self.before.step_times_s, *(step.finished_s for step in self.steps)][-NUM_INTERVALS - 1 :]
        return min((later - sooner for sooner, later in pairwise(times)), default=None)


class Resumed(World):
    """Goes on from `moment` under these settings. Its clock is the moment's."""

    def __init__(
        self,
        moment: Moment,
        settings: Settings,
        workload: Workload,
        policy_kind: str,
        seed: int,
        *,
        recorded: tuple[tuple[float, ...], ...] = (),
        overrides: tuple[facts.Override, ...] = (),
        on_decisions: Callable[[facts.Snapshot, list[Decision]], None] | None = None,
        exhaustive: bool = False,
    ) -> None:
        super().__init__(
            settings, workload, policy_kind, seed, recorded=recorded, overrides=overrides, on_decisions=on_decisions,
            exhaustive=exhaustive,
        )  # fmt: skip
        # Drawn and forgotten, so that a seed's later groups are the same as without the break.
        self.durations.groups(0, moment.num_groups)
        snapshot = moment.snapshot
        self.began_s = self.now_s = self.pool.now_s = snapshot.taken_at_s
        self.version = snapshot.version
        self.pool.renew(self.version)
        self.tally = _GoesOn(settings, workload, before=moment.counted)
        self.num_bursts, self.num_groups = snapshot.next_burst, moment.num_groups
        self.num_void_in_a_row = snapshot.num_void_in_a_row
        self.evaluated = list(snapshot.evaluated)
        self._work = snapshot.work
        self.heap.clear()
        self._plan_ends_of_orders()
        self._take_groups(moment)
        self._take_batch(moment)
        self._take_cells(moment)
        self._take_evaluation(moment)
        self.pool.stalled_s = moment.stalled_s
        self.tally.water(self.now_s, self.dispatched - self.finished)
        self._serving_changed()
        self._wake_trainers()
        if workload.cell_failures_per_h:
            for cell in self.cells:
                self._plan_failure(cell)

    def result(self, seed: int) -> Result:
        """From the moment on: hours, shares of time, steps. Series keep the run's clock."""
        result = super().result(seed)
        spent_s = max(self.now_s - self.began_s, 1e-9)
        share = self.now_s / spent_s
        return replace(
            result,
            hours=result.hours / share,
            utilisation={name: value * share for name, value in result.utilisation.items()},
        )

    def _take_groups(self, moment: Moment) -> None:
        self.bursts = [
            SimBurst(
                burst.number, burst.version, burst.max_staleness, burst.groups_per_batch, burst.num_unfinished,
                burst.num_admitted, {ready.id: ready for ready in burst.ready}, burst.settled_at_s,
            )
            for burst in moment.snapshot.bursts
        ]  # fmt: skip
        by_number = {burst.number: burst for burst in self.bursts}
        self.groups: dict[int, SimGroup] = {}
        underway: list[tuple[Execution, Underway]] = []
        waiting: list[Execution] = []
        for then in moment.groups:
            draws = [one.draw for one in then.executions]
            drawn = Drawn([d.seconds for d in draws], [d.votes for d in draws], [d.works for d in draws])
            group = SimGroup(
                then.number, by_number[then.burst], drawn, 0, settled_s=then.settled_s, state=then.state,
                resumed_s=then.started_s if then.started_s >= 0.0 else None,
            )  # fmt: skip
            self.groups[then.number] = group
            for one in then.executions:
                execution = Execution(group, one.draw.seconds)
                group.executions.append(execution)
                if one.state in (FINISHED, EVALUATING):
                    execution.launch = Launch(-1.0, INFINITE, 0.0, one.launch_version, 0.0)
                    execution.mean_version, execution.done = one.mean_version, True
                if one.state == FINISHED:
                    continue
                group.num_owed += 1
                if one.state == WAITING:
                    waiting.append(execution)
                else:
                    underway.append((execution, one))
            if group.state == "ready":
                self.tally.ready[group.id] = group
        self.waiting = waiting[::-1]
        self.dispatched = moment.snapshot.counters.dispatched
        self.finished = self.dispatched - len(waiting) - len(underway)
        self.launched = self.dispatched - len(waiting)
        for execution, one in sorted(underway, key=lambda pair: -pair[1].elapsed_s):
            if one.state == EVALUATING:
                self.at(one.verdict_in_s, self._finished, execution)
            else:
                self.pool.take_over(execution, one.done_s, one.elapsed_s, one.launch_version, one.mean_version)

    def _take_batch(self, moment: Moment) -> None:
        batch = moment.snapshot.batch
        if batch is None:
            return
        groups = [group for group in self.groups.values() if group.state == "admitted"]
        self.batch = SimBatch(
            batch.number, batch.burst, batch.version, self.now_s, sealed=batch.sealed, groups=groups,
            num_micro_steps=sum(group.num_micro_steps(self.workload.micro_steps_per_group) for group in groups),
            launch_versions=[one.launch.version for group in groups for one in group.working()],
            num_unclaimed=batch.num_unclaimed, num_claimed=batch.num_uncounted, num_counted=batch.num_counted,
        )  # fmt: skip

    def _take_cells(self, moment: Moment) -> None:
        then = sorted(moment.snapshot.cells, key=lambda cell: (not cell.is_core, cell.index))
        self.cells = [self._cell(moment, then[i], i) if i < len(then) else self._new_cell(i) for i in range(self.k)]
        for gone in then[self.k :]:
            if self.batch is not None:
                self.batch.num_claimed -= gone.num_uncounted
                self.batch.num_unclaimed += gone.num_uncounted
        core = self.cells[0]
        if self.batch is not None and moment.commit_left_s is not None and core.role == facts.TRAINING:
            self.batch.stepping = True
            self.at(moment.commit_left_s, self._stepped, self.batch, core.epoch)

    @property
    def k(self) -> int:
        return self.settings.cells

    def _new_cell(self, index: int) -> SimCell:
        return SimCell(
            index, index == 0, weight_version=self.version, role_since_s=self.now_s, lane=[(self.now_s, facts.ROLLOUT)]
        )

    def _cell(self, moment: Moment, then: facts.Cell, index: int) -> SimCell:
        now_s, since_s = self.now_s, self.now_s if then.role_since_s is None else then.role_since_s
        desired = then.desired_role if then.desired_role in (facts.ROLLOUT, facts.TRAINING) else facts.ROLLOUT
        cell = SimCell(
            index, index == 0, role=then.role, desired_role=desired, epoch=then.epoch,
            weight_version=then.weight_version, evaluation=then.evaluation, role_since_s=since_s,
            last_claim_s=then.last_claim_s, num_uncounted=then.num_uncounted, to_training_s=then.to_training_s,
            to_rollout_s=then.to_rollout_s, lane=[(now_s, then.role)],
            seconds={then.role: since_s - now_s},  # not what it spent there before
        )  # fmt: skip
        if then.role not in (facts.ROLLOUT, facts.TRAINING):
            whole_s = self.workload.to_training_s if desired == facts.TRAINING else self.workload.to_rollout_s
            if then.role in (facts.LOST, facts.STOPPED):
                whole_s += self.workload.repair_s
            self.at(moment.switch_left_s.get(then.index, whole_s), self._end_switch, cell, cell.epoch, whole_s)
        elif then.role == facts.TRAINING and then.index in moment.micro_step_left_s:
            left_s, whole_s = moment.micro_step_left_s[then.index]
            cell.computing = True
            self.tally.num_computing += 1
            self.at(left_s, self._computed, cell, cell.epoch, whole_s)
        elif then.role != desired:
            self._begin_switch(cell)
        return cell

    def _take_evaluation(self, moment: Moment) -> None:
        then = moment.snapshot.evaluation
        if then is None:
            return
        self.evaluation = SimEvaluation(then.number, then.version, then.num_waiting, then.num_running)
        for left_s in moment.evaluation_left_s:
            self.at(left_s, self._evaluated_one, self.evaluation)
