"""Test support: a simulated run, written to the rows that a live run of the same course would have left."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import numpy as np
from django.utils import timezone

from agents.models import Call, Execution, Group, Project, Run, Task
from scheduler import config as run_config
from scheduler.models import Burst, Cell, RoleChange
from scheduler.simulator.core.parts import SimCell, SimGroup
from scheduler.simulator.core.pool import Execution as SimExecution
from scheduler.simulator.core.workload import Draw
from scheduler.simulator.scenarios import Scenario
from tests.support.demo_run import demo_task_set
from tests.whatif.moments import Watched
from trainers.models import Batch, HandIn, MicroStep

OUTCOMES = {(True, True): "complete", (True, False): "no-work", (False, False): "unresolved"}


class Noted(Watched):
    """Notes when executions end, cells switch and micro-steps are computed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.launched_at: dict[SimExecution, float] = {}
        self.ended_at: dict[SimExecution, float] = {}
        self.verdict_at: dict[SimExecution, float] = {}
        self.switched: list[tuple[int, float, float, str]] = []
        self.micro_steps_done: list[tuple[int, int, float, float]] = []
        self.bursts_seen: dict[int, Any] = {}
        self.work_done: dict[SimExecution, float] = {}  # seconds at full load, when it ended or timed out
        self.clock: list[tuple[float, float]] = []  # (time, progress) of the pool
        pool = self.rollout.pool
        note_before(pool, "_changed", lambda: self.clock.append((pool.now_s, pool.progress)))
        note_before(pool, "stall", lambda *_: self.clock.append((pool.now_s, pool.progress)))
        note_before(self.rollout, "launch", self._launching)
        note_before(self.tally, "ended", self._ending)
        note_before(self.rollout, "finish", self._finishing)
        note_before(self.roles, "_end_switch", self._switching)
        note_before(self.roles, "_computed", self._computing)

    def _launching(self, count: int) -> None:
        waiting = self.rollout.waiting
        for execution in waiting[len(waiting) - count :]:
            self.launched_at[execution] = self.now_s
        for burst in self.rollout.bursts:
            self.bursts_seen[burst.number] = burst

    def _ending(self, execution: SimExecution, timed_out: bool, now_s: float) -> None:
        self.ended_at[execution] = now_s
        self.work_done[execution] = self.rollout.pool.progress - execution.started_progress

    def _finishing(self, execution: SimExecution) -> None:
        self.verdict_at[execution] = self.now_s

    def _switching(self, cell: SimCell, epoch: int, took_s: float) -> None:
        self.switched.append((cell.index, self.now_s - took_s, self.now_s, cell.desired_role))

    def _computing(self, cell: SimCell, epoch: int, seconds: float) -> None:
        batch = self.training.batch
        if batch is not None:
            self.micro_steps_done.append((batch.number, cell.index, self.now_s - seconds, self.now_s))


def note_before(part: object, name: str, note: Callable[..., None]) -> None:
    """From now on `note` is called with the arguments of this method of `part`, before the method itself."""
    method = getattr(part, name)

    @wraps(method)
    def noted(*args: Any) -> Any:
        note(*args)
        return method(*args)

    setattr(part, name, noted)


def write_run(
    scenario: Scenario, project: Project, *, seed: int = 1, until_s: float | None = None, num_calls: int = 0
) -> Run:
    """Simulate up to `until_s` (or the end) and write what was recorded by then. The run's clock ends now.

    `num_calls` of each execution, if wanted: with what slows under load and what does not.
    """
    world = Noted(scenario.settings, scenario.workload, "elastic", seed)
    world.run(until=None if until_s is None else lambda w: w.now_s >= until_s)
    s, now_s = scenario.settings, world.now_s
    zero = timezone.now() - timedelta(seconds=now_s)

    def at(seconds: float) -> Any:
        return zero + timedelta(seconds=seconds)

    names = ("cells", "concurrency_per_cell", "groups_per_batch", "executions_per_group", "steps", "burst_batches")
    more = ("burst_lead", "max_staleness", "rho_min", "supply_hold_s", "min_rollout_cells", "j_max")
    config = run_config.preset(
        "quickstart", **{name: getattr(s, name) for name in names + more}, eval_every_steps=0, eval_tasks=0,
        harness_timeout_s=scenario.workload.harness_timeout_s, overall_timeout_s=scenario.workload.harness_timeout_s,
    )  # fmt: skip
    run = Run.objects.create(
        project=project, task_set=demo_task_set(), name="simulated", preset="quickstart", policy_kind="elastic",
        seed=seed, config=config.model_dump(mode="json"), state="finished" if world.done else "running",
        started_at=zero, finished_at=at(now_s) if world.done else None, version=world.version,
        dispatched=world.rollout.dispatched, launched=world.rollout.launched, finished=world.rollout.finished,
    )  # fmt: skip
    _cells(run, world, at)
    _bursts_and_groups(run, world, at)
    _batches(run, world, at)
    if num_calls:
        write_calls(run, world, num_calls=num_calls)
    return run


def _cells(run: Run, world: Noted, at: Any) -> None:
    cells = [
        Cell(
            run=run, index=c.index, is_core=c.is_core, role=c.role, desired_role=c.desired_role, epoch=1,
            weight_version=c.weight_version, role_since=at(c.role_since_s), heartbeat_at=timezone.now(),
        )
        for c in world.cells
    ]  # fmt: skip
    Cell.objects.bulk_create(cells)
    for index, started_s, finished_s, role in world.switched:
        change = RoleChange.objects.create(
            cell=cells[index], epoch=1, from_role="", to_role=role, state="finished", finished_at=at(finished_s)
        )
        RoleChange.objects.filter(pk=change.pk).update(started_at=at(started_s))


def _bursts_and_groups(run: Run, world: Noted, at: Any) -> None:
    s, task = world.settings, Task.objects.filter(split="train").first()
    Burst.objects.bulk_create(
        Burst(
            run=run, number=number, version=burst.version, num_groups=s.burst_batches * s.groups_per_batch,
            groups_per_batch=s.groups_per_batch, executions_per_group=s.executions_per_group,
            max_staleness=s.max_staleness,
        )
        for number, burst in world.bursts_seen.items()
    )  # fmt: skip
    groups: dict[int, SimGroup] = dict(world.seen)
    for execution in world.rollout.waiting:
        group: Any = execution.group
        groups[group.id] = group
    for number, group in sorted(groups.items()):
        complete = not group.num_owed
        row = Group.objects.create(
            run=run, task=task, number=number, burst=group.burst.number, state=group.state,
            num_votes=sum(group.drawn.votes), ready_order=number, ready_at=at(group.settled_s) if complete else None,
        )  # fmt: skip
        Execution.objects.bulk_create(
            _execution(run, row, i, one, draw, world, at)
            for i, (one, draw) in enumerate(zip(group.executions, group.drawn.draws(), strict=True))
        )


def _execution(run: Run, group: Group, index: int, one: SimExecution, draw: Draw, world: Noted, at: Any) -> Execution:
    row = Execution(run=run, group=group, index=index, state="dispatched")
    if one in world.launched_at:
        row.state, row.launched_at = "running", at(world.launched_at[one])
        row.min_version = one.launch_version
    if one in world.ended_at:
        row.state, row.harness_ended_at = "evaluating", at(world.ended_at[one])
    if one in world.verdict_at:
        row.state, row.finished_at = "finished", at(world.verdict_at[one])
        row.outcome = OUTCOMES[draw.votes, draw.works]
        row.reward = row.training_reward = 0.5 if draw.votes else None
    return row


def _batches(run: Run, world: Noted, at: Any) -> None:
    steps = {step.number: step for step in world.tally.steps}
    for number in sorted({batch for batch, *_ in world.micro_steps_done}):
        work = [found for found in world.micro_steps_done if found[0] == number]
        step = steps.get(number)
        batch = Batch.objects.create(
            run=run, number=number, burst=0, version=number - 1, state="stepped" if step else "open",
            num_groups=step.num_groups if step else 0,
            sealed_at=at(step.finished_s - world.workload.commit_s) if step else None,
            stepped_at=at(step.finished_s) if step else None,
        )  # fmt: skip
        for place, (_, cell, started_s, ended_s) in enumerate(work):
            hand_in = HandIn.objects.create(
                batch=batch, hand_in_id=uuid.uuid4(), cell_index=cell, epoch=1, num_micro_steps=1, state="counted"
            )
            HandIn.objects.filter(pk=hand_in.pk).update(created_at=at(ended_s))
            MicroStep.objects.create(
                batch=batch, number=place, num_tokens=1, num_targets=1, num_trajectories=1, cell_index=cell, epoch=1,
                claimed_at=at(started_s), hand_in=hand_in, counted_at=at(ended_s),
            )  # fmt: skip


def write_calls(run: Run, world: Noted, *, num_calls: int, seed: int = 1) -> None:
    """Calls of every execution that ended: the time that a load slows, cut into turns of different length.

    In each turn the environment has its share of the progress at full speed; the call takes the rest of the time.
    """
    random, w = np.random.default_rng(seed), world.workload
    times, progress = (np.array(column) for column in zip(*sorted(world.clock), strict=True))
    rows = {(row.group.number, row.index): row for row in run.executions.select_related("group")}
    calls = []
    for number, group in world.seen.items():
        for index, one in enumerate(group.executions):
            if one not in world.ended_at:
                continue
            cuts = np.sort(random.uniform(0, 1, num_calls - 1))
            work = world.work_done[one]
            edges = one.started_progress + work * np.concatenate([[0.0], cuts, [1.0]])
            at = np.interp(edges, progress, times)
            for turn in range(num_calls):
                done, spent = edges[turn + 1] - edges[turn], at[turn + 1] - at[turn]
                tools_s = w.environment_share * done
                calls.append(
                    Call(
                        execution=rows[number, index], attempt=1, number=turn, state="complete", dialect="openai",
                        role="main", output_tokens=max(1, round(100 * done)), input_tokens=10, cached_tokens=0,
                        started_at=run.started_at + timedelta(seconds=at[turn] + tools_s),
                        duration_s=max(0.0, spent - tools_s),
                    )
                )  # fmt: skip
    Call.objects.bulk_create(calls)
