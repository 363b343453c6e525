"""Simulate one point of a what-if with one seed. Pure: the same inputs, changes and seed give the same figures.

A seed stands for two kinds of chance, and both are drawn alike for every point: which groups the run happened to
record (they are drawn anew, with replacement), and which of those the executions to come will be like. Both draw whole
bursts, of those dispatched about then: what a burst waits for is its slowest group, and a burst mixed from the groups
of several waits for the slowest of all of them, which makes the whole run longer than it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from statistics import median_high
from typing import Any, TypeVar

from scheduler.core import bursts
from scheduler.core.snapshot import Snapshot
from scheduler.simulator.core import Result, Stuck, World
from scheduler.simulator.core.resume import EVALUATING, FINISHED, RUNNING, GroupThen, Moment, Underway, resume
from scheduler.simulator.core.workload import HOUR_S, Draw
from scheduler.simulator.scenarios import Scenario
from scheduler.simulator.whatif.inputs import Inputs, LiveGroup, One
from scheduler.simulator.whatif.lifetimes import Lifetimes
from scheduler.simulator.whatif.question import Question, scenario_of

T = TypeVar("T")

MAX_GROUPS = 8192
#: Bursts on either side that stand for one.
REACH = 1
#: With fewer bursts on record groups are drawn one by one, from so many on either side.
MIN_BURSTS = 4
REACH_ONE_BY_ONE = 4
#: A simulated run that takes more events than this is given up.
MAX_EVENTS = 5_000_000
ENDED = (FINISHED, EVALUATING)


def simulate_point(
    inputs: Inputs, question: Question, changes: Mapping[str, Any], seed: int, target: int | None
) -> dict[str, Any]:
    """Figures of one simulated run up to version `target`, to its end without one; or `error`: why it got stuck."""
    try:
        world = _world(inputs, question, changes, seed)
        world.run(until=_until(lambda w: target is not None and w.version >= target))
    except Stuck as error:
        return {"seed": seed, "error": str(error)}
    result = world.result(seed)
    size = changes.get("cell_size", 1.0)
    return {
        "seed": seed,
        "hours": result.hours,
        "steps": result.steps,
        "hours_then": _hours_then(inputs, question, result),
        "cells": result.cells,
        "cell_hours": result.cell_hours * size,  # of cells of the present size
        "E_d": result.mean_staleness if result.staleness else None,
        "max_staleness": result.max_staleness,
        "rollout": result.utilisation["rollout"],
        "training": result.utilisation["training"],
        "training_busy": result.utilisation["training_busy"],
        "switches": sum(result.switches.values()),
    }


def _hours_then(inputs: Inputs, question: Question, result: Result) -> float | None:
    """Hours from the run's start to the last step that is recorded; None unless the run is simulated from there."""
    if question.span != "whole" or not 0 < inputs.num_steps <= len(result.step_rows):
        return None
    return result.step_rows[inputs.num_steps - 1].finished_s / HOUR_S


def target_version(inputs: Inputs, question: Question) -> int | None:
    """The version up to which every point is run: what the present settings reach in the hours asked for.

    None: to the end of the run. At least one step. Raises Stuck.
    """
    if question.span != "hours":
        return None
    reached = []
    for seed in range(1, question.seeds + 1):
        world = _world(inputs, question, {}, seed)
        world.run(until=_until(_past(world.now_s + question.hours * HOUR_S)))
        reached.append(world.version)
    start = inputs.snapshot.version if inputs.snapshot is not None else 0
    found = max(start + 1, median_high(reached))
    return None if found >= inputs.settings.steps else found


def _past(limit_s: float) -> Callable[[World], bool]:
    return lambda world: world.now_s >= limit_s


def _until(enough: Callable[[World], bool]) -> Callable[[World], bool]:
    def until(world: World) -> bool:
        if world.agenda.num_events > MAX_EVENTS:
            raise Stuck(f"no end after {MAX_EVENTS:,} events")
        return enough(world)

    return until


def _world(inputs: Inputs, question: Question, changes: Mapping[str, Any], seed: int) -> World:
    base = Scenario("present", inputs.settings, inputs.workload)
    scenario = scenario_of(base, changes, question.present)
    settings, workload = scenario.settings, scenario.workload
    policy = changes.get("policy_kind", inputs.policy_kind)
    random = Random(f"what-if {seed}")
    lifetimes = lifetimes_of(inputs)
    pool = [*inputs.recorded, *_imputed(inputs, lifetimes, random)]
    burst = bursts.shape(inputs.settings).num_batches * inputs.settings.groups_per_batch
    seen = drawn_near(pool, len(pool), burst, random)
    num_groups = min(MAX_GROUPS, (settings.steps + 8) * settings.groups_per_batch)
    recorded = tuple(drawn_near(seen, num_groups, burst, random))
    if question.span == "whole" or inputs.snapshot is None:
        return World(settings, workload, policy, seed, recorded=recorded)
    moment = _moment(inputs, inputs.snapshot, lifetimes, random)
    overrides = tuple(o for o in inputs.snapshot.overrides if o.cell_index is None or o.cell_index < settings.cells)
    return resume(moment, settings, workload, policy, seed, recorded=recorded, overrides=overrides)


def drawn_near(pool: Sequence[T], count: int, burst: int, random: Random) -> list[T]:
    """`count` groups drawn with replacement, burst by burst: each is itself or one next to it, any beyond the end.

    `burst`: groups in one. What is left over at the end of the pool is not drawn.
    """
    if len(pool) < MIN_BURSTS * burst:
        burst, reach = 1, REACH_ONE_BY_ONE
    else:
        reach = REACH
    num_bursts = len(pool) // burst
    found: list[T] = []
    for place in range(-(-count // burst)):
        first, last = (place - reach, place + reach) if place < num_bursts else (0, num_bursts - 1)
        chosen = random.randint(max(0, first), min(num_bursts - 1, last))
        found += pool[chosen * burst : (chosen + 1) * burst]
    return found[:count]


def lifetimes_of(inputs: Inputs) -> Lifetimes:
    unfinished = [one for group in inputs.groups if group.state == "dispatched" for one in group.executions]
    ended = [seconds for group in inputs.recorded for seconds in group]
    ended += [one.seconds for one in unfinished if one.state in ENDED]
    running = [one.seconds for one in unfinished if one.state == RUNNING]
    return Lifetimes(ended, running, inputs.workload.harness_timeout_s)


def _imputed(inputs: Inputs, lifetimes: Lifetimes, random: Random) -> list[tuple[float, ...]]:
    """Groups of which all executions have begun, those that run with a duration drawn for what is left."""
    return [
        tuple(one.seconds if one.state in ENDED else lifetimes.draw(random, one.seconds) for one in group.executions)
        for group in inputs.groups
        if group.state == "dispatched" and all(one.state in (RUNNING, *ENDED) for one in group.executions)
    ]


def _moment(inputs: Inputs, snapshot: Snapshot, lifetimes: Lifetimes, random: Random) -> Moment:
    return Moment(
        snapshot=replace(snapshot, overrides=()),
        groups=tuple(_group(group, lifetimes, random) for group in inputs.groups),
        num_groups=inputs.num_groups,
        counted=inputs.counted,
        switch_left_s={left.cell: left.left_s for left in inputs.switches},
        micro_step_left_s={left.cell: (left.left_s, left.whole_s) for left in inputs.micro_steps},
        evaluation_left_s=inputs.evaluation_left_s,
    )


def _group(group: LiveGroup, lifetimes: Lifetimes, random: Random) -> GroupThen:
    return GroupThen(
        number=group.number,
        burst=group.burst,
        state=group.state,
        started_s=group.started_s,
        settled_s=group.settled_s,
        executions=tuple(_underway(one, lifetimes, random) for one in group.executions),
    )


def _underway(one: One, lifetimes: Lifetimes, random: Random) -> Underway:
    version = one.launch_version
    if one.state in ENDED:
        draw = Draw(one.seconds, one.votes, one.works)
        return Underway(
            draw, one.state, one.seconds, one.elapsed_s, one.verdict_in_s, launch_version=version, mean_version=version
        )
    draw = Draw(lifetimes.draw(random, one.seconds), True, True)
    return Underway(draw, one.state, one.seconds, one.elapsed_s, launch_version=version, mean_version=version)
