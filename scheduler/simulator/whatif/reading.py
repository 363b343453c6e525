"""Read what a what-if rests on: the run's fit and, while it goes on, the picture of where it stands. Reads only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from agents.actions.errors import NotFound
from agents.models import Run
from scheduler.core import snapshot as facts
from scheduler.core.overrides import SETTING, Orders
from scheduler.core.settings import Settings
from scheduler.core.supply import NUM_GROUPS, NUM_INTERVALS
from scheduler.observe import Observation, observe
from scheduler.simulator.core.resume import EVALUATING, FINISHED, RUNNING, WAITING
from scheduler.simulator.core.tally import Counted
from scheduler.simulator.scenarios import Scenario
from scheduler.simulator.studies.fit import fit, missing
from scheduler.simulator.studies.recorded import Recording, counts, read
from scheduler.simulator.studies.slowdown import LoadEffect
from scheduler.simulator.whatif.inputs import Inputs, Left, LiveGroup, One
from scheduler.simulator.whatif.question import Question, present_values, scenario_of

#: How often to read again when the run went on between two reads.
MAX_READS = 5
#: Batches whose timing the live scheduler averages over; they weigh as much here.
NUM_MEASURED_BATCHES = 4


@dataclass(frozen=True)
class Present:
    """What the form needs: the values in force, whether enough is recorded, where the run stands."""

    settings: Settings
    policy_kind: str
    values: dict[str, Any]
    lacking: str
    goes_on: bool
    num_groups: int
    num_steps: int


def present(run: Run) -> Present:
    """The settings of now, overrides in force included. Raises NotFound."""
    observation = observe(run.pk)
    if observation is None:
        raise NotFound(f"run {run.pk} does not exist")
    snapshot, (num_groups, num_steps) = observation.snapshot, counts(run.pk)
    settings = _in_force(snapshot)
    return Present(
        settings=settings,
        policy_kind=snapshot.policy_kind,
        values=present_values(settings, snapshot.policy_kind),
        lacking=missing(num_groups, num_steps, snapshot.work.micro_step_s is not None),
        goes_on=run.state in Run.LIVE_STATES and snapshot.version < settings.steps,
        num_groups=num_groups,
        num_steps=num_steps,
    )


def read_inputs(run: Run, question: Question) -> tuple[Inputs, dict[str, Any]]:
    """The inputs, and the fit's figures. Raises TooLittle, NotFound, BadScenario."""
    recording, observation = _read_both(run)
    for _ in range(MAX_READS - 1):
        if recording.event_seq == observation.event_seq:
            break
        recording, observation = _read_both(run)
    scenario = fit(recording)
    settings = _as_asked(scenario, question)
    inputs = Inputs(
        policy_kind=recording.policy_kind,
        settings=settings,
        workload=scenario.workload,
        recorded=scenario.recorded,
        num_steps=len(recording.steps),
    )
    if question.span != "whole":
        inputs = _with_picture(run, recording, inputs, observation.snapshot)
    return inputs, dict(scenario.fit)


def _read_both(run: Run) -> tuple[Recording, Observation]:
    """Raises NotFound."""
    recording, observation = read(run.pk), observe(run.pk)
    if recording is None or observation is None:
        raise NotFound(f"run {run.pk} does not exist")
    return recording, observation


def _in_force(snapshot: facts.Snapshot) -> Settings:
    return Orders.of(snapshot, snapshot.taken_at_s).settings


def _as_asked(scenario: Scenario, question: Question) -> Settings:
    """The run's settings with the present values of the question on top: they stay the same for all its points."""
    own = present_values(scenario.settings, question.present["policy_kind"])
    changes = {name: value for name, value in question.present.items() if value != own.get(name)}
    return scenario_of(scenario, changes, question.present).settings


_GROUPS = """
WITH run AS (SELECT *, coalesce(started_at, created_at) AS zero FROM agents_run WHERE id = %(run)s)
SELECT json_build_object(
    'groups', (SELECT json_agg(json_build_object(
        'number', g.number, 'burst', g.burst, 'state', g.state, 'pk', g.id,
        'settled', extract(epoch FROM g.ready_at - run.zero),
        'executions', (SELECT json_agg(json_build_object(
            'id', e.id, 'state', e.state, 'votes', e.reward IS NOT NULL, 'outcome', e.outcome,
            'launched', extract(epoch FROM e.launched_at - run.zero), 'held', e.held_s,
            'elapsed', extract(epoch FROM coalesce(e.harness_ended_at, e.finished_at, now()) - e.launched_at),
            'since_end', extract(epoch FROM now() - e.harness_ended_at),
            'version', coalesce(e.min_version, b.version)) ORDER BY e.index)
            FROM agents_execution e WHERE e.group_id = g.id AND e.state <> 'cancelled')
        ) ORDER BY g.number)
        FROM agents_group g CROSS JOIN run
        LEFT JOIN scheduler_burst b ON b.run_id = %(run)s AND b.number = g.burst
        WHERE g.run_id = %(run)s AND g.kind = 'training' AND g.state IN ('dispatched', 'ready', 'admitted')),
    'next', (SELECT coalesce(max(number) + 1, 0) FROM agents_group WHERE run_id = %(run)s AND kind = 'training'),
    'zero', (SELECT extract(epoch FROM zero) FROM run),
    'took', (SELECT json_agg(seconds ORDER BY ready_at) FROM (
        SELECT ready_at, extract(epoch FROM ready_at - created_at) AS seconds FROM agents_group
        WHERE run_id = %(run)s AND kind = 'training' AND ready_at IS NOT NULL
        ORDER BY ready_at DESC LIMIT %(newest)s) complete),
    'switches', (SELECT json_agg(json_build_array(c.index, ch.to_role, extract(epoch FROM now() - ch.started_at)))
        FROM scheduler_rolechange ch JOIN scheduler_cell c ON c.id = ch.cell_id
        WHERE c.run_id = %(run)s AND ch.state = 'started' AND ch.epoch = c.epoch),
    'evaluating', (SELECT json_agg(extract(epoch FROM now() - e.launched_at)) FROM agents_execution e
        JOIN agents_group g ON g.id = e.group_id JOIN scheduler_evaluation v
            ON v.run_id = %(run)s AND v.number = g.evaluation AND v.state = 'running'
        WHERE g.run_id = %(run)s AND g.kind = 'evaluation' AND e.state IN ('queued', 'running', 'evaluating'))
)::text
"""
_STATES = {"dispatched": WAITING, "queued": WAITING, "running": RUNNING, "evaluating": EVALUATING, "finished": FINISHED}


def _with_picture(run: Run, recording: Recording, inputs: Inputs, seen: facts.Snapshot) -> Inputs:
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS, {"run": run.pk, "newest": NUM_GROUPS})
        rows = json.loads(cursor.fetchone()[0])
    zero_s, workload = rows["zero"], inputs.workload
    groups = tuple(
        _group(row, workload.evaluation_s, recording.load) for row in rows["groups"] or () if row["executions"]
    )
    numbers = {row["pk"]: row["number"] for row in rows["groups"] or ()}
    snapshot = _on_the_runs_clock(seen, zero_s, groups, numbers)
    now_s, work = snapshot.taken_at_s, snapshot.work
    whole_s = {"training": workload.to_training_s, "rollout": workload.to_rollout_s}
    micro_step_s = work.micro_step_s or 0.0
    num_groups = sum(step.num_groups for step in recording.steps[-NUM_MEASURED_BATCHES:])
    micro_steps = num_groups * (work.micro_steps_per_group or 0.0)
    return replace(
        inputs,
        snapshot=snapshot,
        groups=groups,
        num_groups=rows["next"],
        counted=Counted(
            micro_steps * micro_step_s,
            micro_steps,
            micro_steps,
            num_groups,
            group_s=tuple(rows["took"] or ()),
            step_times_s=tuple(step.stepped_s for step in recording.steps[-NUM_INTERVALS - 1 :]),
        ),
        switches=tuple(
            Left(cell, max(0.0, whole_s.get(role, 0.0) - since_s)) for cell, role, since_s in rows["switches"] or ()
        ),
        micro_steps=tuple(
            Left(cell.index, max(0.0, micro_step_s - (now_s - cell.last_claim_s)), micro_step_s)
            for cell in snapshot.cells
            if cell.role == cell.desired_role == facts.TRAINING and cell.num_uncounted and cell.last_claim_s
        ),
        evaluation_left_s=_evaluation_left(snapshot, rows["evaluating"] or (), workload.eval_execution_h * 3600.0),
    )


def _group(row: Mapping[str, Any], verification_s: float, load: LoadEffect) -> LiveGroup:
    launches = [one["launched"] for one in row["executions"] if one["launched"] is not None]
    return LiveGroup(
        number=row["number"],
        burst=row["burst"],
        state=row["state"],
        executions=tuple(_one(one, verification_s, load) for one in row["executions"]),
        started_s=max(0.0, min(launches)) if launches else -1.0,
        settled_s=row["settled"] or 0.0,
    )


def _one(row: Mapping[str, Any], verification_s: float, load: LoadEffect) -> One:
    state = _STATES[row["state"]]
    seconds = 0.0 if state == WAITING else max(0.0, (row["elapsed"] or 0.0) - row["held"])
    return One(
        state=state,
        seconds=seconds * load.factor.get(row["id"], load.mean_factor),
        elapsed_s=seconds,
        verdict_in_s=max(0.0, verification_s - (row["since_end"] or 0.0)) if state == EVALUATING else 0.0,
        votes=row["votes"] or state != FINISHED,
        works=state != FINISHED or row["outcome"] in ("complete", "partial"),
        launch_version=row["version"] or 0,
    )


def _on_the_runs_clock(
    seen: facts.Snapshot, zero_s: float, groups: tuple[LiveGroup, ...], numbers: Mapping[int, int]
) -> facts.Snapshot:
    """Seconds since the run's start; groups by number; bursts and counters as the groups say, which were read last."""

    def since(at_s: float | None) -> float | None:
        return None if at_s is None else max(0.0, at_s - zero_s)

    bursts = []
    for burst in seen.bursts:
        own = [group for group in groups if group.burst == burst.number]
        order = {numbers[ready.id]: i for i, ready in enumerate(burst.ready) if ready.id in numbers}
        ready = sorted((g for g in own if g.state == "ready"), key=lambda g: (order.get(g.number, 10**9), g.settled_s))
        bursts.append(
            replace(
                burst,
                num_unfinished=sum(group.state == "dispatched" for group in own),
                num_admitted=sum(group.state == "admitted" for group in own),
                ready=tuple(facts.ReadyGroup(group.number, group.settled_s) for group in ready),
                settled_at_s=since(burst.settled_at_s) or 0.0,
            )
        )
    cells = [
        replace(cell, role_since_s=since(cell.role_since_s), last_claim_s=since(cell.last_claim_s))
        for cell in seen.cells
    ]
    orders = [
        replace(order, expires_at_s=order.expires_at_s - zero_s) for order in seen.overrides if order.kind != SETTING
    ]
    return replace(
        seen,
        taken_at_s=seen.taken_at_s - zero_s,
        cells=tuple(cells),
        bursts=tuple(burst for burst in bursts if burst.outstanding),
        overrides=tuple(order for order in orders if order.kind != "hold_dispatch"),
        dispatch_held=False,
        paused=False,
    )


def _evaluation_left(snapshot: facts.Snapshot, elapsed: Any, mean_s: float) -> tuple[float, ...]:
    if snapshot.evaluation is None:
        return ()
    left = [max(1.0, mean_s - (since_s or 0.0)) for since_s in elapsed]
    missing_ones = snapshot.evaluation.num_running - len(left)
    return tuple((left + [mean_s] * max(0, missing_ones))[: snapshot.evaluation.num_running])
