"""A world that begins in the middle of a run: at a snapshot, with executions under way (docs/algorithms.md §12).

    world = resume(moment, settings, workload, "elastic", seed=1)
    world.run()                 # to the end, or world.run(until=lambda w: w.version >= 12)
    result = world.result(1)    # counted from the moment on

Settings may differ from those that the run had: the same burst, groups, batch and executions, decided otherwise from
then on. Cells beyond those of the snapshot begin in rollout; those that are taken away leave their claims behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scheduler.core import snapshot as facts
from scheduler.core.decisions import Decision
from scheduler.core.settings import Settings
from scheduler.simulator.core.evaluations import Evaluations
from scheduler.simulator.core.parts import SimBatch, SimBurst, SimCell, SimEvaluation, SimGroup
from scheduler.simulator.core.pool import INFINITE, Execution, Launch
from scheduler.simulator.core.rollout import Rollout
from scheduler.simulator.core.tally import Counted, Tally
from scheduler.simulator.core.training import Training
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


@dataclass(frozen=True)
class Moment:
    """A run at one instant. Times are seconds since its start; ready groups carry their number as id."""

    snapshot: facts.Snapshot
    groups: tuple[GroupThen, ...]  # in the order of dispatch
    num_groups: int  # dispatched so far, those that are gone included
    counted: Counted = field(default_factory=Counted)
    switch_left_s: Mapping[int, float] = field(default_factory=dict)  # by cell; not given: a whole switch
    micro_step_left_s: Mapping[int, tuple[float, float]] = field(default_factory=dict)  # by cell: left, whole
    commit_left_s: float | None = None  # of the step that is being committed
    evaluation_left_s: tuple[float, ...] = ()  # of the evaluation's running executions
    stalled_s: float = 0.0


def resume(
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
) -> World:
    """A world that goes on from `moment` under these settings. Its clock is the moment's."""
    snapshot = moment.snapshot
    world = World(
        settings, workload, policy_kind, seed, recorded=recorded, overrides=overrides, on_decisions=on_decisions,
        exhaustive=exhaustive, began_s=snapshot.taken_at_s, version=snapshot.version,
        tally=Tally(settings, workload, moment.counted),
    )  # fmt: skip
    world.training.measured = snapshot.work
    groups = _take_groups(world.rollout, moment)
    _take_batch(world.training, moment, groups)
    _take_cells(world, moment)
    _take_evaluation(world.evaluations, moment)
    world.rollout.pool.stalled_s = moment.stalled_s
    world.tally.water(world.now_s, world.rollout.waterlevel)
    world.roles.serving_changed()
    world.roles.wake_trainers()
    return world


def _take_groups(rollout: Rollout, moment: Moment) -> list[SimGroup]:
    snapshot = moment.snapshot
    # Drawn and forgotten, so that a seed's later groups are the same as without the break.
    rollout.durations.groups(0, moment.num_groups)
    rollout.num_bursts, rollout.num_groups = snapshot.next_burst, moment.num_groups
    rollout.num_void_in_a_row = snapshot.num_void_in_a_row
    rollout.bursts = [
        SimBurst(
            burst.number, burst.version, burst.max_staleness, burst.groups_per_batch, burst.num_unfinished,
            burst.num_admitted, {ready.id: ready for ready in burst.ready}, burst.settled_at_s,
        )
        for burst in snapshot.bursts
    ]  # fmt: skip
    by_number = {burst.number: burst for burst in rollout.bursts}
    groups: list[SimGroup] = []
    underway: list[tuple[Execution, Underway]] = []
    waiting: list[Execution] = []
    for then in moment.groups:
        group = _group(then, by_number[then.burst])
        groups.append(group)
        for one in then.executions:
            execution = _execution(group, one)
            if one.state == WAITING:
                waiting.append(execution)
            elif one.state != FINISHED:
                underway.append((execution, one))
        if group.state == "ready":
            rollout.ready[group.id] = group
    rollout.waiting = waiting[::-1]
    rollout.dispatched = snapshot.counters.dispatched
    rollout.finished = rollout.dispatched - len(waiting) - len(underway)
    rollout.launched = rollout.dispatched - len(waiting)
    for execution, one in sorted(underway, key=lambda pair: -pair[1].elapsed_s):
        if one.state == EVALUATING:
            rollout.agenda.at(one.verdict_in_s, rollout.finish, execution)
        else:
            rollout.pool.take_over(execution, one.done_s, one.elapsed_s, one.launch_version, one.mean_version)
    return groups


def _group(then: GroupThen, burst: SimBurst) -> SimGroup:
    draws = [one.draw for one in then.executions]
    drawn = Drawn([d.seconds for d in draws], [d.votes for d in draws], [d.works for d in draws])
    started_s = then.started_s if then.started_s >= 0.0 else None
    return SimGroup(then.number, burst, drawn, 0, settled_s=then.settled_s, state=then.state, resumed_s=started_s)


def _execution(group: SimGroup, one: Underway) -> Execution:
    execution = Execution(group, one.draw.seconds)
    group.executions.append(execution)
    group.num_owed += one.state != FINISHED
    if one.state in (FINISHED, EVALUATING):
        execution.launch = Launch(-1.0, INFINITE, 0.0, one.launch_version, 0.0)
        execution.mean_version, execution.done = one.mean_version, True
    return execution


def _take_batch(training: Training, moment: Moment, groups: list[SimGroup]) -> None:
    batch = moment.snapshot.batch
    if batch is None:
        return
    admitted = [group for group in groups if group.state == "admitted"]
    per_group = training.workload.micro_steps_per_group
    training.batch = SimBatch(
        batch.number, batch.burst, batch.version, training.agenda.now_s, sealed=batch.sealed, groups=admitted,
        num_micro_steps=sum(group.num_micro_steps(per_group) for group in admitted),
        launch_versions=[one.launch.version for group in admitted for one in group.working()],
        num_unclaimed=batch.num_unclaimed, num_claimed=batch.num_uncounted, num_counted=batch.num_counted,
    )  # fmt: skip


def _take_cells(world: World, moment: Moment) -> None:
    """The core first. A cell that is there no more leaves its claims behind."""
    cells, batch = world.cells, world.training.batch
    then = sorted(moment.snapshot.cells, key=lambda cell: (not cell.is_core, cell.index))
    for index, one in enumerate(then[: len(cells)]):
        cells[index] = _cell(one, index, world.now_s)
        _go_on(world, cells[index], one, moment)
    for gone in then[len(cells) :]:
        if batch is not None:
            batch.num_claimed -= gone.num_uncounted
            batch.num_unclaimed += gone.num_uncounted
    if batch is not None and moment.commit_left_s is not None and cells[0].role == facts.TRAINING:
        world.training.begin_step(batch, moment.commit_left_s)


def _cell(then: facts.Cell, index: int, now_s: float) -> SimCell:
    since_s = now_s if then.role_since_s is None else then.role_since_s
    known = (facts.ROLLOUT, facts.TRAINING, facts.STOPPED)
    return SimCell(
        index, index == 0, role=then.role,
        desired_role=then.desired_role if then.desired_role in known else facts.ROLLOUT, epoch=then.epoch,
        weight_version=then.weight_version, evaluation=then.evaluation, role_since_s=since_s,
        last_claim_s=then.last_claim_s, num_uncounted=then.num_uncounted, to_training_s=then.to_training_s,
        to_rollout_s=then.to_rollout_s, lane=[(now_s, then.role)],
        seconds={then.role: since_s - now_s},  # negative: takes off what `become` will book of the time before `now_s`
    )  # fmt: skip


def _go_on(world: World, cell: SimCell, then: facts.Cell, moment: Moment) -> None:
    """What the cell was doing is done later: the rest of a switch, of a repair, of a micro-step."""
    roles, workload = world.roles, world.workload
    if cell.role == cell.desired_role == facts.STOPPED:
        return
    if cell.role not in (facts.ROLLOUT, facts.TRAINING):
        whole_s = workload.to_training_s if cell.desired_role == facts.TRAINING else workload.to_rollout_s
        if cell.role in (facts.LOST, facts.STOPPED):
            whole_s += workload.repair_s
        roles.arrive_in(moment.switch_left_s.get(then.index, whole_s), cell, whole_s)
    elif cell.role == facts.TRAINING and then.index in moment.micro_step_left_s:
        left_s, whole_s = moment.micro_step_left_s[then.index]
        world.training.begin_micro_step(cell)
        roles.compute_for(left_s, cell, whole_s)
    elif cell.role != cell.desired_role:
        roles.begin_switch(cell)


def _take_evaluation(evaluations: Evaluations, moment: Moment) -> None:
    evaluations.evaluated = list(moment.snapshot.evaluated)
    then = moment.snapshot.evaluation
    if then is None:
        return
    evaluations.current = SimEvaluation(then.number, then.version, then.num_waiting, then.num_running)
    for left_s in moment.evaluation_left_s:
        evaluations.end_one_in(left_s)
