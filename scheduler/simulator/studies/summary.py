"""What a study came to at one point: medians over the seeds, intervals, ratios to the reference, the best split.

Ratios are of medians, hours of a policy over hours of the reference. Intervals are 95% t intervals of the mean over
seeds; those of ratios pair the seeds, since every policy of a seed meets the same executions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import mean, median, stdev
from typing import Any

from scheduler.simulator.core import Result
from scheduler.simulator.studies.many import Finished
from scheduler.simulator.studies.study import BEST_SPLIT, REFERENCE, Point, Study

Interval = tuple[float, float]

#: 97.5% quantiles of Student's t by degrees of freedom, from 1 on.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def t_quantile(degrees: int) -> float:
    """97.5% quantile; beyond 30 degrees by its expansion around the normal, right to three digits."""
    return _T[degrees - 1] if degrees <= len(_T) else 1.95996 + 2.3723 / degrees + 2.8225 / degrees**2


def t_interval(values: Sequence[float]) -> Interval | None:
    """95% interval of the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    half = t_quantile(len(values) - 1) * stdev(values) / sqrt(len(values))
    return mean(values) - half, mean(values) + half


@dataclass(frozen=True)
class PolicySummary:
    """One policy at one point, over the seeds that came to an end. `split`: training cells of `async-best`."""

    policy: str
    results: tuple[Result, ...]
    errors: tuple[str, ...] = ()
    split: int | None = None
    ratio: float | None = None
    ratio_interval: Interval | None = None

    def median(self, name: str) -> float:
        """Median over the seeds of a figure of `Result`. Raises StatisticsError when no seed came to an end."""
        return median(float(getattr(result, name)) for result in self.results)

    def mean(self, name: str) -> float:
        return mean(float(getattr(result, name)) for result in self.results)

    @property
    def hours(self) -> float:
        return self.median("hours")

    @property
    def hours_per_step(self) -> float:
        return self.median("hours_per_step")

    @property
    def hours_interval(self) -> Interval | None:
        return t_interval([result.hours for result in self.results])

    @property
    def utilisation(self) -> dict[str, float]:
        names = self.results[0].utilisation
        return {name: mean(result.utilisation[name] for result in self.results) for name in names}

    @property
    def switches(self) -> float:
        """Finished role changes per run, mean over the seeds."""
        return mean(sum(result.switches.values()) for result in self.results)

    @property
    def bound_h_per_step(self) -> float:
        """Work-conserving bound: all work of the consumed groups on K cells at full load."""
        return median(result.bounds.work_h for result in self.results)

    @property
    def chain_h_per_step(self) -> float:
        """The longest chain of executions, each launched after the step that trained the one before."""
        return median(result.bounds.chain_h for result in self.results)


@dataclass(frozen=True)
class Summary:
    """All policies of one point. `reference` is there also when it was not asked for."""

    point: Point
    policies: tuple[PolicySummary, ...]
    reference: PolicySummary | None
    seeds: tuple[int, ...]
    is_complete: bool
    asked_reference: bool

    @property
    def first(self) -> PolicySummary | None:
        """Whose execution and query hours stand in the last line: the reference, or the first with a result."""
        if self.asked_reference and self.reference is not None:
            return self.reference
        return next((policy for policy in self.policies if policy.results), None)

    def to_json(self, preset: str) -> dict[str, Any]:
        """The last line of `simulate --json`."""
        shown = [policy for policy in self.policies if policy.results]
        first = self.first
        figures = ("execution_h", "query_h", "query_ge_4h")
        data: dict[str, Any] = {
            "preset": preset,
            "hours_per_step": {policy.policy: policy.hours_per_step for policy in shown},
            "ratio_to_elastic": {policy.policy: policy.ratio for policy in shown},
            "E_d": {policy.policy: policy.mean("mean_staleness") for policy in shown},
            **{name: first.mean(name) if first else None for name in figures},
            "bound_h_per_step": first.bound_h_per_step if first else None,
            "hours": {policy.policy: policy.hours for policy in shown},
            "hours_interval_95": {policy.policy: policy.hours_interval for policy in shown},
            "ratio_interval_95": {policy.policy: policy.ratio_interval for policy in shown},
            "seeds": list(self.seeds),
        }
        if best := next((policy for policy in shown if policy.split is not None), None):
            data["best_split"] = {"training_cells": best.split, "cells": self.point.scenario.settings.cells}
        if not self.asked_reference:
            data["reference"] = f"{REFERENCE} was not asked for and ran only as the reference of the ratios"
        if not self.is_complete:
            data["incomplete"] = True
        if failed := {policy.policy: list(policy.errors) for policy in self.policies if policy.errors}:
            data["errors"] = failed
        if self.point.changes:
            data["set"] = dict(self.point.changes)
        return data


def summarise(study: Study, point: Point, finished: Iterable[Finished]) -> Summary:
    """What the jobs of one point came to; jobs of other points are passed over."""
    by_policy: dict[str, list[Finished]] = defaultdict(list)
    for item in finished:
        if item.job.point == point.number:
            by_policy[item.job.policy].append(item)
    expected = sum(job.point == point.number for job in study.jobs())
    reference = _policy(REFERENCE, by_policy[REFERENCE], None)
    policies = tuple(_policy(policy, by_policy[policy], reference) for policy in study.policies)
    return Summary(
        point=point,
        policies=policies,
        reference=reference if reference.results else None,
        seeds=tuple(seed for seed in study.seeds if any(seed == item.job.seed for item in by_policy[REFERENCE])),
        is_complete=expected == sum(len(items) for items in by_policy.values()),
        asked_reference=not study.runs_reference,
    )


def _policy(policy: str, items: list[Finished], reference: PolicySummary | None, num_seeds: int = 0) -> PolicySummary:
    split = None
    if policy == BEST_SPLIT and items:
        split, items = _best_split(items)
    items = sorted(items, key=lambda item: item.job.seed)
    results = tuple(item.result for item in items if item.result is not None)
    errors = tuple(f"seed {item.job.seed}: {item.error}" for item in items if item.result is None)
    if policy == REFERENCE and reference is None:
        reference = PolicySummary(policy, results)
    ratio = interval = None
    if results and reference is not None and reference.results:
        ratio = median(result.hours for result in results) / reference.hours
        interval = _ratio_interval(results, reference.results)
    return PolicySummary(policy, results, errors, split, ratio, interval)


def _best_split(items: list[Finished]) -> tuple[int, list[Finished]]:
    """The split that is fastest by the median over the seeds, among those that finish the most of them.

    Of a study that was interrupted, seeds that have not tried every split do not count, unless none has.
    """
    splits: dict[int, dict[int, Finished]] = defaultdict(dict)
    for item in items:
        splits[item.job.training_cells or 0][item.job.seed] = item
    seeds = set.intersection(*(set(tried) for tried in splits.values())) or {item.job.seed for item in items}

    def rank(split: int) -> tuple[int, float]:
        tried = [item for seed, item in splits[split].items() if seed in seeds]
        hours = [item.result.hours for item in tried if item.result is not None]
        return -len(hours), median(hours) if hours else float("inf")

    best = min(splits, key=rank)
    return best, [item for seed, item in splits[best].items() if seed in seeds]


def _ratio_interval(results: Sequence[Result], reference: Sequence[Result]) -> Interval | None:
    """95% t interval of the geometric mean of the ratios seed by seed."""
    hours: Mapping[int, float] = {result.seed: result.hours for result in reference}
    logs = [log(result.hours / hours[result.seed]) for result in results if result.seed in hours]
    interval = t_interval(logs)
    return (exp(interval[0]), exp(interval[1])) if interval else None
