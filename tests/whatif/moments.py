"""Test support: a simulated world at one instant, as the moment that another world can resume."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scheduler.core.decisions import Decision, Kind, Launch
from scheduler.simulator.core.parts import SimGroup
from scheduler.simulator.core.pool import Execution
from scheduler.simulator.core.resume import EVALUATING, FINISHED, RUNNING, WAITING, GroupThen, Moment, Underway
from scheduler.simulator.core.tally import Counted
from scheduler.simulator.core.workload import Draw
from scheduler.simulator.core.world import World


class Watched(World):
    """Remembers its groups, which a world itself forgets once they are consumed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: dict[int, SimGroup] = {}
        self.launches_s: dict[Execution, float] = {}

    def _launch(self, decision: Decision) -> None:
        waiting, pool = self.rollout.waiting, self.rollout.pool
        pool.advance(self.now_s)
        for execution in waiting[len(waiting) - decision.expect(Launch).count :]:
            group: Any = execution.group
            self.seen[group.id] = group
            self.launches_s[execution] = pool.served_s
        super()._launch(decision)

    _carry_out = World._carry_out | {Kind.LAUNCH: _launch}


def due(world: World, name: str) -> list[tuple[float, tuple[Any, ...]]]:
    """What is due of one kind: seconds left, and with which arguments."""
    return [(at - world.now_s, args) for at, _, action, args in sorted(world.agenda.heap) if action.__name__ == name]


def moment_of(world: Watched) -> Moment:
    """The world as it is now. Call it between two events."""
    world.rollout.pool.advance(world.now_s)
    groups: dict[int, SimGroup] = dict(world.seen)
    for execution in world.rollout.waiting:
        group: Any = execution.group
        groups[group.id] = group
    verdicts = {id(args[0]): left for left, args in due(world, "finish")}
    then = [
        _group(world, group, verdicts)
        for number, group in sorted(groups.items())
        if group.state in ("dispatched", "ready", "admitted")
    ]
    tally = world.tally
    commit = due(world, "_step")
    return Moment(
        snapshot=world.snapshot(),
        groups=tuple(then),
        num_groups=world.rollout.num_groups,
        counted=Counted(
            tally.computed_s,
            tally.num_computed,
            tally.micro_steps,
            sum(step.num_groups for step in tally.steps),
            group_s=tuple(tally.query_s),
            step_times_s=tuple(step.finished_s for step in tally.steps),
        ),
        switch_left_s={args[0].index: left for left, args in due(world, "_end_switch") if args[0].epoch == args[1]},
        micro_step_left_s={
            args[0].index: (left, args[2]) for left, args in due(world, "_computed") if args[0].epoch == args[1]
        },
        commit_left_s=commit[0][0] if commit else None,
        evaluation_left_s=tuple(left for left, _ in due(world, "_end_one")),
        stalled_s=world.rollout.pool.stalled_s,
    )


def _group(world: Watched, group: SimGroup, verdicts: dict[int, float]) -> GroupThen:
    waiting = {id(execution) for execution in world.rollout.waiting}
    return GroupThen(
        number=group.id,
        burst=group.burst.number,
        state=group.state,
        started_s=group.started_s,
        settled_s=group.settled_s,
        executions=tuple(
            _underway(world, one, draw, waiting, verdicts)
            for one, draw in zip(group.executions, group.drawn.draws(), strict=True)
        ),
    )


def _underway(
    world: Watched, execution: Execution, draw: Draw, waiting: set[int], verdicts: dict[int, float]
) -> Underway:
    if id(execution) in waiting:
        return Underway(draw, WAITING)
    if execution.done:
        ended = Underway(draw, FINISHED, launch_version=execution.launch_version, mean_version=execution.mean_version)
        if id(execution) in verdicts:
            return replace(ended, state=EVALUATING, verdict_in_s=verdicts[id(execution)])
        return ended
    pool = world.rollout.pool
    return Underway(
        draw,
        RUNNING,
        done_s=pool.progress - execution.started_progress,
        elapsed_s=pool.served_s - world.launches_s[execution],
        launch_version=execution.launch_version,
        mean_version=pool.mean_version(execution),
    )
