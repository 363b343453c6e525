"""What a run has recorded that a simulation can be fitted to: executions, steps, switches, commits. Reads only.

Executions are those of training groups, cancelled ones left out. All seconds are on the database's clock unless the
name says `_s` of a duration; time that the proxy held calls for scheduling is no time of an execution.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import connection

from scheduler.observe import Measures, measure
from scheduler.simulator.studies.slowdown import NO_EFFECT, LoadEffect, load_effect


@dataclass(frozen=True, slots=True)
class PastExecution:
    """One execution that was launched. `launched_s` is None for one whose attempt waits; times since the run's start.

    `took_s`: launch to the end of its harness, held time excluded; None while it runs. `elapsed_s`: the same up to now.
    """

    group: int
    launched_s: float | None
    ended_s: float | None
    finished_s: float | None
    took_s: float | None
    elapsed_s: float
    held_s: float
    votes: bool
    works: bool
    timed_out: bool
    version: int
    id: int = 0


@dataclass(frozen=True, slots=True)
class PastStep:
    """One optimizer step: when it was committed, and how long that took after the last of its work was counted."""

    number: int
    stepped_s: float
    commit_s: float | None
    num_groups: int


@dataclass(frozen=True, slots=True)
class Recording:
    """A run up to now. Times are seconds since its start, pauses included; `pauses` are [start, end) of them."""

    run_id: int
    config: dict[str, Any]
    policy_kind: str
    version: int
    now_s: float
    executions: tuple[PastExecution, ...]
    complete_groups: frozenset[int]  # all their executions are finished, whatever came of them
    steps: tuple[PastStep, ...]
    pauses: tuple[tuple[float, float], ...]
    evaluation_s: tuple[tuple[float, ...], ...]  # of held-out executions by evaluation, verdict included
    verification_s: float | None  # mean time from the harness's end to the verdict
    drawn: tuple[int, ...]  # trajectories per trained execution
    measures: Measures
    load: LoadEffect = NO_EFFECT
    event_seq: int = 0
    ended: bool = False  # then `now_s` is when it ended

    def working_s(self, until_s: float) -> float:
        """Seconds up to then in which the run was not paused."""
        return until_s - sum(max(0.0, min(end, until_s) - start) for start, end in self.pauses if start < until_s)


_SQL = """
WITH run AS (SELECT * FROM agents_run WHERE id = %(run)s),
start AS (SELECT coalesce(started_at, created_at) AS at, coalesce(finished_at, now()) AS until FROM run),
training AS (SELECT * FROM agents_group WHERE run_id = %(run)s AND kind = 'training')
SELECT json_build_object(
    'run', (SELECT json_build_object('config', config, 'policy_kind', policy_kind, 'version', version,
        'event_seq', event_seq, 'ended', finished_at IS NOT NULL) FROM run),
    'now', (SELECT extract(epoch FROM until - at) FROM start),
    'executions', (SELECT json_agg(json_build_object(
        'id', e.id, 'group', g.number,
        'launched', extract(epoch FROM e.launched_at - start.at),
        'ended', extract(epoch FROM coalesce(e.harness_ended_at, e.finished_at) - start.at),
        'finished', extract(epoch FROM e.finished_at - start.at),
        'elapsed', extract(epoch FROM start.until - e.launched_at),
        'held', e.held_s, 'outcome', e.outcome, 'timed_out', e.timed_out, 'state', e.state,
        'votes', e.reward IS NOT NULL,
        'version', coalesce(e.min_version, b.version, 0)) ORDER BY g.number, e.index)
        FROM agents_execution e JOIN training g ON g.id = e.group_id CROSS JOIN start
        LEFT JOIN scheduler_burst b ON b.run_id = %(run)s AND b.number = g.burst
        WHERE e.state <> 'cancelled' AND e.launched_at IS NOT NULL),
    'complete', (SELECT json_agg(g.number ORDER BY g.number) FROM training g
        WHERE g.state IN ('ready', 'admitted', 'consumed', 'void')),
    'steps', (SELECT json_agg(json_build_object(
        'number', b.number, 'groups', b.num_groups, 'stepped', extract(epoch FROM b.stepped_at - start.at),
        'commit', extract(epoch FROM b.stepped_at - greatest(b.sealed_at, (
            SELECT max(h.created_at) FROM trainers_handin h WHERE h.batch_id = b.id AND h.state = 'counted')))
        ) ORDER BY b.number)
        FROM trainers_batch b CROSS JOIN start WHERE b.run_id = %(run)s AND b.state = 'stepped'),
    'pauses', (SELECT json_agg(json_build_array(ev.kind, extract(epoch FROM ev.created_at - start.at)) ORDER BY ev.seq)
        FROM agents_runevent ev CROSS JOIN start
        WHERE ev.run_id = %(run)s AND ev.kind IN ('run_paused', 'run_resumed')),
    'evaluation', (SELECT json_agg(seconds ORDER BY evaluation) FROM (
        SELECT g.evaluation, json_agg(extract(epoch FROM e.finished_at - e.launched_at)) AS seconds
        FROM agents_execution e JOIN agents_group g ON g.id = e.group_id
        WHERE g.run_id = %(run)s AND g.kind = 'evaluation' AND e.state = 'finished' AND e.launched_at IS NOT NULL
        GROUP BY 1) held_out),
    'verification', (SELECT avg(extract(epoch FROM e.finished_at - e.harness_ended_at)) FROM agents_execution e
        JOIN training g ON g.id = e.group_id WHERE e.state = 'finished' AND e.harness_ended_at IS NOT NULL),
    'drawn', (SELECT json_agg(n) FROM (SELECT count(*) AS n FROM agents_trajectory t
        JOIN agents_execution e ON e.id = t.execution_id
        WHERE e.run_id = %(run)s AND t.num_targets > 0 GROUP BY t.execution_id) per_execution)
)::text
"""


_COUNTS = """
SELECT
    (SELECT count(*) FROM agents_group g WHERE g.run_id = %(run)s AND g.kind = 'training'
        AND g.state IN ('ready', 'admitted', 'consumed', 'void')
        AND EXISTS (SELECT FROM agents_execution e WHERE e.group_id = g.id AND e.state = 'finished')),
    (SELECT count(*) FROM trainers_batch WHERE run_id = %(run)s AND state = 'stepped')
"""


def counts(run_id: int) -> tuple[int, int]:
    """(complete groups, optimizer steps): how much is recorded, without reading it."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"run": run_id})
        num_groups, num_steps = cursor.fetchone()
    return int(num_groups), int(num_steps)


def read(run_id: int) -> Recording | None:
    """Everything in one statement, so that it fits together; None when the run does not exist."""
    with connection.cursor() as cursor:
        cursor.execute(_SQL, {"run": run_id})
        rows = json.loads(cursor.fetchone()[0])
    if rows["run"] is None:
        return None
    config = rows["run"]["config"]
    return Recording(
        run_id=run_id,
        config=config,
        policy_kind=rows["run"]["policy_kind"],
        version=rows["run"]["version"],
        now_s=rows["now"],
        executions=tuple(_execution(row) for row in rows["executions"] or ()),
        complete_groups=frozenset(rows["complete"] or ()),
        steps=tuple(
            PastStep(row["number"], row["stepped"], row["commit"], row["groups"]) for row in rows["steps"] or ()
        ),
        pauses=_pauses(rows["pauses"] or (), rows["now"]),
        evaluation_s=tuple(tuple(seconds) for seconds in rows["evaluation"] or ()),
        verification_s=rows["verification"],
        drawn=tuple(rows["drawn"] or ()),
        measures=measure(run_id),
        load=load_effect(run_id, config["cells"], config["concurrency_per_cell"]),
        event_seq=rows["run"]["event_seq"],
        ended=rows["run"]["ended"],
    )


def _execution(row: dict[str, Any]) -> PastExecution:
    finished = row["state"] == "finished"
    ended = row["ended"] if finished or row["state"] == "evaluating" else None
    launched = row["launched"] if row["state"] in ("running", "evaluating", "finished") else None
    took = None if ended is None or launched is None else max(0.0, ended - launched - row["held"])
    return PastExecution(
        id=row["id"],
        group=row["group"],
        launched_s=launched,
        ended_s=ended,
        finished_s=row["finished"] if finished else None,
        took_s=took,
        elapsed_s=0.0 if launched is None else max(0.0, row["elapsed"] - row["held"]),
        held_s=row["held"],
        votes=row["votes"],
        works=row["outcome"] in ("complete", "partial"),
        timed_out=row["timed_out"],
        version=row["version"],
    )


def _pauses(events: Iterable[tuple[str, float]], now_s: float) -> tuple[tuple[float, float], ...]:
    found: list[tuple[float, float]] = []
    since: float | None = None
    for kind, at in events:
        if kind == "run_paused" and since is None:
            since = at
        elif kind == "run_resumed" and since is not None:
            found.append((since, at))
            since = None
    if since is not None:
        found.append((since, now_s))
    return tuple(found)
