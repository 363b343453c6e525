"""How much a cell's load slows its calls, measured on a run's own calls, and executions freed from it.

A call of `out` tokens that reads `in` new ones at load x is taken to last  p + r·in + out·(d + s·x)  seconds: queue and
network, prefill, decode. Ordinary least squares gives d and s with their standard errors; alpha = d / (d + s) is the
time per token of an empty cell relative to full load. Only when s is told apart from nothing, on loads that differ
enough, are durations corrected; otherwise they are replayed as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from django.db import connection
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Newest calls that are looked at; more would say no more.
MAX_CALLS = 40_000
MIN_CALLS = 200
#: Least distance between the 10th and the 90th percentile of the load.
MIN_SPREAD = 0.15
#: The slowdown must exceed its standard error by this factor.
MIN_T = 3.0


@dataclass(frozen=True)
class LoadEffect:
    """`alpha` 1: no effect is taken into account, and `why` says why. `factor` by execution: full-load time / time."""

    alpha: float
    alpha_error: float
    environment_share: float
    factor: Mapping[int, float]
    num_calls: int
    why: str = ""

    @property
    def mean_factor(self) -> float:
        return float(np.mean(list(self.factor.values()))) if self.factor else 1.0


NO_EFFECT = LoadEffect(1.0, 0.0, 0.0, {}, 0)

_SQL = """
WITH start AS (SELECT coalesce(started_at, created_at) AS at, coalesce(finished_at, now()) AS until
    FROM agents_run WHERE id = %(run)s)
SELECT e.id, extract(epoch FROM c.started_at - start.at)::float, greatest(c.duration_s - c.held_s, 0),
    c.output_tokens, greatest(c.input_tokens - c.cached_tokens, 0)
FROM agents_call c JOIN agents_execution e ON e.id = c.execution_id AND e.attempt = c.attempt
JOIN agents_group g ON g.id = e.group_id CROSS JOIN start
WHERE e.run_id = %(run)s AND g.kind = 'training' AND c.state = 'complete' AND c.output_tokens > 0
ORDER BY c.id DESC LIMIT %(limit)s
"""
_SPANS = """
WITH start AS (SELECT coalesce(started_at, created_at) AS at, coalesce(finished_at, now()) AS until
    FROM agents_run WHERE id = %(run)s)
SELECT e.id, extract(epoch FROM e.launched_at - start.at)::float,
    extract(epoch FROM coalesce(e.harness_ended_at, e.finished_at, start.until) - start.at)::float, e.held_s
FROM agents_execution e JOIN agents_group g ON g.id = e.group_id CROSS JOIN start
WHERE e.run_id = %(run)s AND g.kind = 'training' AND e.launched_at IS NOT NULL AND e.state <> 'cancelled'
"""
_ROLES = """
WITH start AS (SELECT coalesce(started_at, created_at) AS at FROM agents_run WHERE id = %(run)s)
SELECT
    extract(epoch FROM CASE ch.to_role WHEN 'rollout' THEN ch.finished_at ELSE ch.started_at END - start.at)::float,
    CASE WHEN ch.to_role = 'rollout' THEN 1 ELSE -1 END
FROM scheduler_rolechange ch JOIN scheduler_cell c ON c.id = ch.cell_id CROSS JOIN start
WHERE c.run_id = %(run)s AND ch.state = 'finished' AND ch.to_role IN ('rollout', 'training')
"""


def load_effect(run_id: int, num_cells: int, concurrency: int) -> LoadEffect:
    """What the run's calls say. Never raises for want of data: then nothing is corrected."""
    with connection.cursor() as cursor:
        cursor.execute(_SQL, {"run": run_id, "limit": MAX_CALLS})
        calls = np.array(cursor.fetchall(), dtype=np.float64).reshape(-1, 5)
        cursor.execute(_SPANS, {"run": run_id})
        spans = np.array(cursor.fetchall(), dtype=np.float64).reshape(-1, 4)
        cursor.execute(_ROLES, {"run": run_id})
        roles = np.array(cursor.fetchall(), dtype=np.float64).reshape(-1, 2)
    if len(calls) < MIN_CALLS:
        return LoadEffect(1.0, 0.0, 0.0, {}, len(calls), f"{len(calls)} calls are recorded, {MIN_CALLS} are needed")
    course = _Course.of(calls, spans, roles, num_cells, concurrency)
    alpha, error, why = _alpha(calls, course.mean(calls, course.loads))
    speeds = course.mean(calls, 1.0 / (alpha + (1.0 - alpha) * course.loads))
    return _freed(calls, spans, speeds, alpha, error, why)


@dataclass(frozen=True)
class _Course:
    """Load of the cells in rollout as steps: `loads[i]` from `times[i]` on."""

    times: Floats
    loads: Floats

    @classmethod
    def of(cls, calls: Floats, spans: Floats, roles: Floats, num_cells: int, room: int) -> _Course:
        """Running executions per place of the cells in rollout, at most 1."""
        started, ended = np.sort(spans[:, 1]), np.sort(spans[:, 2])
        order = np.argsort(roles[:, 0], kind="stable")
        changed, cells = roles[order, 0], num_cells + np.concatenate([[0.0], np.cumsum(roles[order, 1])])
        times = np.unique(np.concatenate([started, ended, changed, calls[:, 1], calls[:, 1] + calls[:, 2]]))
        running = np.searchsorted(started, times, side="right") - np.searchsorted(ended, times, side="right")
        serving = np.clip(cells[np.searchsorted(changed, times, side="right")], 1, num_cells)
        return cls(times, np.clip(running / (serving * room), 0.0, 1.0))

    def mean(self, calls: Floats, values: Floats) -> Floats:
        """Mean over the time of each call of what has `values[i]` from `times[i]` on."""
        sums = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(self.times))])
        first = np.searchsorted(self.times, calls[:, 1])
        last = np.searchsorted(self.times, calls[:, 1] + calls[:, 2])
        return np.where(last > first, (sums[last] - sums[first]) / np.maximum(calls[:, 2], 1e-9), values[first])


def _alpha(calls: Floats, loads: Floats) -> tuple[float, float, str]:
    """alpha, its standard error, and why it is 1."""
    spread = float(np.percentile(loads, 90) - np.percentile(loads, 10))
    if spread < MIN_SPREAD:
        return 1.0, 0.0, f"loads differ by {spread:.2f} only, {MIN_SPREAD} is needed"
    seconds, out, new = calls[:, 2], calls[:, 3], calls[:, 4]
    kept = seconds <= np.percentile(seconds, 99)
    design = np.column_stack([np.ones_like(out), new, out, out * loads])[kept]
    design = design[:, [0, *np.flatnonzero(design[:, 1:].std(axis=0) > 0) + 1]]
    found, _, rank, _ = np.linalg.lstsq(design, seconds[kept], rcond=None)
    if rank < design.shape[1] or design.shape[1] < 3:
        return 1.0, 0.0, "lengths and loads of the calls vary too little to tell them apart"
    left = seconds[kept] - design @ found
    covariance = (left @ left) / (len(left) - rank) * np.linalg.inv(design.T @ design)
    base, slope = float(found[-2]), float(found[-1])
    base_error, slope_error = np.sqrt(np.diag(covariance)[-2:])
    if slope <= MIN_T * slope_error or base <= 0:
        return 1.0, 0.0, "no slowdown with load that can be told from noise"
    total = base + slope
    error = np.hypot(slope * base_error, base * slope_error) / total**2
    return base / total, float(error), ""


def _freed(calls: Floats, spans: Floats, speeds: Floats, alpha: float, error: float, why: str) -> LoadEffect:
    """Per execution: its calls as they would be at full load, its other time as it was."""
    at_full = calls[:, 2] * speeds
    ids, place = np.unique(calls[:, 0], return_inverse=True)
    was, full = np.bincount(place, calls[:, 2]), np.bincount(place, at_full)
    took = {int(one): max(0.0, end - start - held) for one, start, end, held in spans.tolist()}
    factor: dict[int, float] = {}
    elsewhere = decoded = 0.0
    for one, spent, freed in zip(ids.astype(int).tolist(), was.tolist(), full.tolist(), strict=True):
        whole = took.get(one, 0.0)
        if whole > 0.0:
            other = max(0.0, whole - spent)  # parallel calls may add up to more than the time that passed
            factor[one] = (other + freed * min(1.0, whole / spent)) / whole
            elsewhere, decoded = elsewhere + other, decoded + freed
    share = elsewhere / (elsewhere + decoded) if elsewhere + decoded else 0.0
    return LoadEffect(alpha, error, share if alpha < 1.0 else 0.0, factor if alpha < 1.0 else {}, len(calls), why)
