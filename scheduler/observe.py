"""Rows to `Snapshot`: one statement, so consistent in itself, by the database's clock (docs/algorithms.md §9)."""

import json
from dataclasses import dataclass
from typing import Any

from django.db import connection

from scheduler.core import snapshot as facts
from scheduler.core.counters import Counters
from scheduler.core.settings import Settings
from scheduler.core.supply import NUM_GROUPS, NUM_INTERVALS, quantiles


@dataclass(frozen=True)
class Measures:
    """What was measured lately. It changes slowly, so the loop refreshes it less often than the snapshot."""

    work: facts.Work
    to_training_s: dict[int, float]
    to_rollout_s: dict[int, float]


@dataclass(frozen=True)
class Observation:
    """A snapshot and what the loop needs beside it."""

    snapshot: facts.Snapshot
    state: str
    event_seq: int
    next_decision: int
    next_decide: int  # number of the next stored evaluation of `decide`


#: A claim is live while its cell is in the same epoch and neither lost nor stopped (trainers.ledger).
_SNAPSHOT = """
WITH run AS (SELECT * FROM agents_run WHERE id = %(run)s),
cell AS (SELECT * FROM scheduler_cell WHERE run_id = %(run)s),
batch AS (SELECT * FROM trainers_batch WHERE run_id = %(run)s AND state IN ('open', 'sealed')),
step AS (
    SELECT m.cell_index, m.claimed_at, m.hand_in_id IS NOT NULL AS counted, c.id IS NOT NULL AS live
    FROM trainers_microstep m JOIN batch b ON b.id = m.batch_id
    LEFT JOIN cell c ON c.index = m.cell_index AND c.epoch = m.epoch AND c.role NOT IN ('lost', 'stopped')
),
owed AS (
    SELECT e.state, e.attempt, g.kind, g.evaluation
    FROM agents_execution e JOIN agents_group g ON g.id = e.group_id
    WHERE e.run_id = %(run)s AND e.state IN ('dispatched', 'queued', 'running', 'evaluating')
),
live AS (
    SELECT id, burst, state, ready_order, ready_at FROM agents_group
    WHERE run_id = %(run)s AND kind = 'training' AND state IN ('dispatched', 'ready', 'admitted')
),
evaluation AS (SELECT * FROM scheduler_evaluation WHERE run_id = %(run)s)
SELECT json_build_object(
    'now', extract(epoch FROM now()),
    'run', (SELECT json_build_object(
        'state', state, 'version', version, 'policy_kind', policy_kind, 'config', config, 'event_seq', event_seq,
        'dispatched', dispatched, 'launched', launched, 'finished', finished, 'held', dispatch_held) FROM run),
    'queued', (SELECT count(*) FROM owed WHERE kind = 'training' AND state = 'queued' AND attempt = 1),
    'cells', (SELECT json_agg(json_build_object(
        'index', index, 'is_core', is_core, 'role', role, 'desired_role', desired_role, 'epoch', epoch,
        'weight_version', weight_version, 'evaluation', evaluation, 'num_calls', num_calls,
        'num_kv_tokens', num_kv_tokens, 'role_since', extract(epoch FROM role_since),
        'last_claim', (SELECT extract(epoch FROM max(claimed_at)) FROM step s WHERE s.cell_index = c.index AND s.live),
        'uncounted', (SELECT count(*) FROM step s WHERE s.cell_index = c.index AND s.live AND NOT s.counted)
        ) ORDER BY index) FROM cell c),
    'bursts', (SELECT json_agg(json_build_object(
        'number', b.number, 'version', b.version, 'max_staleness', b.max_staleness, 'size', b.groups_per_batch,
        'unfinished', l.unfinished, 'admitted', l.admitted, 'ready', l.ready, 'settled_at', (
            SELECT extract(epoch FROM max(ready_at)) FROM agents_group g
            WHERE g.run_id = %(run)s AND g.kind = 'training' AND g.burst = b.number)
        ) ORDER BY b.number)
        FROM scheduler_burst b JOIN (
            SELECT burst, count(*) FILTER (WHERE state = 'dispatched') AS unfinished,
                count(*) FILTER (WHERE state = 'admitted') AS admitted,
                json_agg(json_build_array(id, extract(epoch FROM ready_at)) ORDER BY ready_order, id)
                    FILTER (WHERE state = 'ready') AS ready
            FROM live GROUP BY burst) l ON l.burst = b.number
        WHERE b.run_id = %(run)s),
    'batch', (SELECT json_build_object(
        'number', number, 'burst', burst, 'version', version, 'sealed', state = 'sealed', 'groups', num_groups,
        'unclaimed', (SELECT count(*) FROM step WHERE NOT counted AND NOT live),
        'uncounted', (SELECT count(*) FROM step WHERE NOT counted AND live),
        'counted', (SELECT count(*) FROM step WHERE counted)) FROM batch),
    'evaluation', (SELECT json_build_object(
        'number', number, 'version', version,
        'waiting', (SELECT count(*) FROM owed o WHERE o.kind = 'evaluation' AND o.evaluation = e.number
            AND o.state = 'dispatched'),
        'running', (SELECT count(*) FROM owed o WHERE o.kind = 'evaluation' AND o.evaluation = e.number
            AND o.state <> 'dispatched'))
        FROM evaluation e WHERE state = 'running' ORDER BY number LIMIT 1),
    'evaluated', (SELECT json_agg(version ORDER BY version) FROM evaluation),
    'overrides', (SELECT json_agg(json_build_object(
        'id', id, 'kind', kind, 'cell_index', cell_index, 'value', value, 'unsafe', unsafe,
        'expires_at', extract(epoch FROM expires_at)) ORDER BY id)
        FROM scheduler_override WHERE run_id = %(run)s AND released_at IS NULL AND expires_at > now()),
    'next_burst', (SELECT coalesce(max(number) + 1, 0) FROM scheduler_burst WHERE run_id = %(run)s),
    'next_evaluation', (SELECT coalesce(max(number) + 1, 0) FROM evaluation),
    'decision', (SELECT json_build_array(number, evaluation_number) FROM scheduler_decision WHERE run_id = %(run)s
        ORDER BY number DESC LIMIT 1),
    'void_in_a_row', (SELECT count(*) FROM agents_group WHERE run_id = %(run)s AND kind = 'training' AND state = 'void'
        AND ready_at > coalesce((SELECT max(ready_at) FROM agents_group WHERE run_id = %(run)s AND kind = 'training'
            AND state IN ('ready', 'admitted', 'consumed')), '-infinity')
        AND ready_at > coalesce((SELECT max(created_at) FROM agents_runevent WHERE run_id = %(run)s
            AND kind = 'alarm_cleared' AND payload->>'code' = 'void_groups'), '-infinity'))
)::text
"""


#: Mean of the newest ten switches per cell and direction.
_SWITCHES = """
SELECT c.index, newest.to_role, avg(newest.seconds) FROM scheduler_cell c CROSS JOIN LATERAL (
    SELECT to_role, extract(epoch FROM finished_at - started_at) AS seconds,
        row_number() OVER (PARTITION BY to_role ORDER BY id DESC) AS place
    FROM scheduler_rolechange WHERE cell_id = c.id AND state = 'finished') newest
WHERE c.run_id = %(run)s AND newest.place <= 10 GROUP BY c.index, newest.to_role
"""

#: Of the newest batches: seconds per micro-step from the core's hand-ins (one per chunk), micro-steps per group, the
#: shortest interval between steps; and how long the newest groups took.
_WORK = """
WITH newest AS (
    SELECT id, num_groups FROM trainers_batch WHERE run_id = %(run)s AND state = 'stepped' ORDER BY number DESC LIMIT 4
),
chunk AS (
    SELECT h.id, count(*) AS steps, extract(epoch FROM h.created_at - min(m.claimed_at)) AS seconds
    FROM trainers_handin h JOIN newest n ON n.id = h.batch_id
    JOIN scheduler_cell c ON c.run_id = %(run)s AND c.is_core AND c.index = h.cell_index
    JOIN trainers_microstep m ON m.hand_in_id = h.id GROUP BY h.id, h.created_at
)
SELECT (SELECT sum(seconds) / sum(steps) FROM chunk),
    (SELECT count(*) FROM trainers_microstep m JOIN newest n ON n.id = m.batch_id)::float
        / nullif((SELECT sum(num_groups) FROM newest), 0),
    (SELECT extract(epoch FROM min(taken)) FROM (
        SELECT stepped_at - lag(stepped_at) OVER (ORDER BY number) AS taken FROM (
            SELECT number, stepped_at FROM trainers_batch WHERE run_id = %(run)s AND state = 'stepped'
            ORDER BY number DESC LIMIT %(intervals)s + 1) stepped) intervals),
    (SELECT array_agg(extract(epoch FROM ready_at - created_at)::float) FROM (
        SELECT ready_at, created_at FROM agents_group WHERE run_id = %(run)s AND kind = 'training'
            AND ready_at IS NOT NULL ORDER BY ready_at DESC LIMIT %(groups)s) settled)
"""


def measure(run_id: int) -> Measures:
    """Switch durations and training work, measured."""
    with connection.cursor() as cursor:
        cursor.execute(_SWITCHES, {"run": run_id})
        switches = cursor.fetchall()
        cursor.execute(_WORK, {"run": run_id, "intervals": NUM_INTERVALS, "groups": NUM_GROUPS})
        micro_step_s, per_group, step_s, group_s = cursor.fetchone()
    return Measures(
        work=facts.Work(
            micro_step_s=None if micro_step_s is None else float(micro_step_s),
            micro_steps_per_group=None if per_group is None else float(per_group),
            step_s=None if step_s is None else float(step_s),
            group_s=quantiles(group_s or ()),
        ),
        to_training_s={index: float(s) for index, role, s in switches if role == facts.TRAINING},
        to_rollout_s={index: float(s) for index, role, s in switches if role == facts.ROLLOUT},
    )


def observe(run_id: int, measures: Measures | None = None) -> Observation | None:
    """The run as it is now; None when it does not exist."""
    with connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT, {"run": run_id})
        rows = json.loads(cursor.fetchone()[0])
    if rows["run"] is None:
        return None
    run, decision = rows["run"], rows["decision"] or [0, 0]
    return Observation(
        snapshot=_snapshot(rows, measures or measure(run_id)),
        state=run["state"],
        event_seq=run["event_seq"],
        next_decision=decision[0] + 1,
        next_decide=decision[1] + 1,
    )


def _snapshot(rows: dict[str, Any], measures: Measures) -> facts.Snapshot:
    run = rows["run"]
    return facts.Snapshot(
        taken_at_s=rows["now"],
        policy_kind=run["policy_kind"],
        version=run["version"],
        counters=Counters(run["dispatched"], run["launched"], run["finished"], rows["queued"]),
        settings=Settings.from_config(run["config"]),
        cells=tuple(_cell(row, measures) for row in rows["cells"] or ()),
        bursts=tuple(_burst(row) for row in rows["bursts"] or ()),
        batch=_batch(rows["batch"]),
        evaluation=rows["evaluation"] and _evaluation(rows["evaluation"]),
        evaluated=tuple(rows["evaluated"] or ()),
        overrides=tuple(_override(row) for row in rows["overrides"] or ()),
        work=measures.work,
        next_burst=rows["next_burst"],
        next_evaluation=rows["next_evaluation"],
        num_void_in_a_row=rows["void_in_a_row"],
        dispatch_held=run["held"],
        paused=run["state"] == "paused",
    )


def _cell(row: dict[str, Any], measures: Measures) -> facts.Cell:
    return facts.Cell(
        index=row["index"],
        is_core=row["is_core"],
        role=row["role"],
        desired_role=row["desired_role"],
        epoch=row["epoch"],
        weight_version=row["weight_version"],
        evaluation=row["evaluation"],
        num_calls=row["num_calls"],
        num_kv_tokens=row["num_kv_tokens"],
        role_since_s=row["role_since"],
        last_claim_s=row["last_claim"],
        num_uncounted=row["uncounted"],
        to_training_s=measures.to_training_s.get(row["index"]),
        to_rollout_s=measures.to_rollout_s.get(row["index"]),
    )


def _burst(row: dict[str, Any]) -> facts.Burst:
    return facts.Burst(
        number=row["number"],
        version=row["version"],
        max_staleness=row["max_staleness"],
        groups_per_batch=row["size"],
        num_unfinished=row["unfinished"],
        num_admitted=row["admitted"],
        ready=tuple(facts.ReadyGroup(group, ready_at or 0.0) for group, ready_at in row["ready"] or ()),
        settled_at_s=row["settled_at"] or 0.0,
    )


def _batch(row: dict[str, Any] | None) -> facts.Batch | None:
    if row is None:
        return None
    return facts.Batch(
        number=row["number"],
        burst=row["burst"],
        version=row["version"],
        sealed=row["sealed"],
        num_groups=row["groups"],
        num_unclaimed=row["unclaimed"],
        num_uncounted=row["uncounted"],
        num_counted=row["counted"],
    )


def _evaluation(row: dict[str, Any]) -> facts.Evaluation:
    return facts.Evaluation(row["number"], row["version"], row["waiting"], row["running"])


def _override(row: dict[str, Any]) -> facts.Override:
    value = row["value"]
    return facts.Override(
        id=row["id"],
        kind=row["kind"],
        expires_at_s=row["expires_at"],
        cell_index=row["cell_index"],
        role=str(value.get("role", "")),
        name=str(value.get("name", "")),
        number=float(value.get("value", 0.0)),
        unsafe=row["unsafe"],
    )
