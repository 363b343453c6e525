"""Whether a run is good enough: what is measured of it, held against limits that a person or a pipeline names."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from agents.models import Execution, Group, Run
from agents.web.runs import OutcomeCounts, outcome_counts
from scheduler.config import RunConfig
from scheduler.models import Evaluation

PASSED, FAILED, PENDING = "passed", "failed", "pending"


@dataclass(frozen=True)
class Limits:
    """None: not asked. `margin`: so many standard errors must lie between a held-out figure and its limit."""

    min_reward: float | None = None
    min_gain: float | None = None
    max_unresolved_share: float | None = None
    max_false_forks: int | None = None
    margin: float = 0.0


@dataclass(frozen=True)
class HeldOut:
    """One finished evaluation. `standard_error` is over tasks; None below two of them."""

    evaluation: int
    version: int
    mean: float
    standard_error: float | None
    num_scored: int
    num_tasks: int


@dataclass(frozen=True)
class Check:
    name: str
    passed: bool
    value: float | None
    standard_error: float | None
    limit: float | None
    text: str


@dataclass(frozen=True)
class Gate:
    """`verdict`: pending while the run can still go on, whatever the checks say now."""

    run: Run
    verdict: str
    first: HeldOut | None
    last: HeldOut | None
    gain: float | None
    gain_standard_error: float | None
    checks: list[Check]

    @property
    def passed(self) -> bool:
        return self.verdict == PASSED

    @property
    def reasons(self) -> list[str]:
        return [check.text for check in self.checks if not check.passed]


def gate(run: Run, limits: Limits) -> Gate:
    """The held-out figures of the first and the newest finished evaluation, and each limit that was asked for."""
    rows = list(Evaluation.objects.filter(run=run, state="finished", reward_mean__isnull=False).order_by("version"))
    ends = {row.number: _rewards(run, row.number) for row in rows[:1] + rows[-1:]}
    first, last = (_held_out(row, ends[row.number]) for row in (rows[0], rows[-1])) if rows else (None, None)
    gain, gain_error = None, None
    if first and last and len(rows) > 1:
        gain, gain_error = last.mean - first.mean, _gain_error(ends[first.evaluation], ends[last.evaluation])
    checks = [_state_check(run)]
    if limits.min_reward is not None:
        checks.append(_reward_check(last, limits.min_reward, limits.margin))
    if limits.min_gain is not None:
        checks.append(_gain_check(len(rows), gain, gain_error, limits.min_gain, limits.margin))
    if limits.max_unresolved_share is not None or limits.max_false_forks is not None:
        checks += _outcome_checks(outcome_counts(run), limits)
    all_passed = all(check.passed for check in checks)
    verdict = PENDING if run.state in Run.LIVE_STATES else PASSED if all_passed else FAILED
    return Gate(run, verdict, first, last, gain, gain_error, checks)


def _rewards(run: Run, evaluation: int) -> dict[int, float]:
    """Mean raw reward by task, of the scored executions."""
    rows = Execution.objects.filter(
        run=run, group__kind=Group.Kind.EVALUATION, group__evaluation=evaluation, reward__isnull=False
    ).values_list("group__task", "reward")
    found: dict[int, list[float]] = defaultdict(list)
    for task, reward in rows:
        found[task].append(reward)
    return {task: fmean(rewards) for task, rewards in found.items()}


def _held_out(row: Evaluation, rewards: dict[int, float]) -> HeldOut:
    error = _standard_error(list(rewards.values()))
    return HeldOut(row.number, row.version, float(row.reward_mean or 0.0), error, row.num_scored, row.num_tasks)


def _standard_error(values: list[float]) -> float | None:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else None


def _gain_error(first: dict[int, float], last: dict[int, float]) -> float | None:
    """Of the gain: paired by task, or that of two independent means where the two scored different tasks."""
    if first.keys() == last.keys():
        return _standard_error([last[task] - first[task] for task in first])
    errors = [_standard_error(list(rewards.values())) for rewards in (first, last)]
    return None if None in errors else sqrt(sum(error**2 for error in errors if error is not None))


def _state_check(run: Run) -> Check:
    why = f": {run.state_reason}" if run.state_reason else ""
    text = f"the run is {run.state}, at step {run.version} of {RunConfig.readable(run.config)['steps']}{why}"
    return Check("state", run.state == Run.State.FINISHED, None, None, None, text)


def _reward_check(last: HeldOut | None, limit: float, margin: float) -> Check:
    if last is None:
        return Check(
            "min_reward", False, None, None, limit, "no evaluation has finished, so no held-out reward is known"
        )
    named = f"held-out reward {_figure(last.mean, last.standard_error)} at version {last.version}"
    named += f" ({last.num_scored} of {last.num_tasks} scored)"
    return _at_least("min_reward", named, last.mean, last.standard_error, limit, margin)


def _gain_check(num_evaluations: int, gain: float | None, error: float | None, limit: float, margin: float) -> Check:
    if gain is None:
        text = f"a gain needs two finished evaluations; the run has {num_evaluations}"
        return Check("min_gain", False, None, None, limit, text)
    return _at_least("min_gain", f"held-out gain {_figure(gain, error, '+')}", gain, error, limit, margin)


def _at_least(name: str, named: str, value: float, error: float | None, limit: float, margin: float) -> Check:
    if margin and error is None:
        return Check(name, False, value, None, limit, f"{named}: no standard error is known, so no margin can be kept")
    passed = value - margin * (error or 0.0) >= limit
    wanted = f"{limit:g}" + (f" by {margin:g} standard errors" if margin else "")
    return Check(name, passed, value, error, limit, f"{named}: {'reaches' if passed else 'does not reach'} {wanted}")


def _outcome_checks(counts: OutcomeCounts, limits: Limits) -> list[Check]:
    found = []
    if (limit := limits.max_unresolved_share) is not None:
        share = counts.unresolved_share
        text = f"{share:.1%} of {counts.finished} training executions are unresolved; at most {limit:.1%} may be"
        found.append(Check("max_unresolved_share", share <= limit, share, None, limit, text))
    if (most := limits.max_false_forks) is not None:
        text = f"{counts.false_forks} false forks in {counts.calls} calls; at most {most} may be"
        found.append(
            Check("max_false_forks", counts.false_forks <= most, float(counts.false_forks), None, float(most), text)
        )
    return found


def _figure(value: float, error: float | None, sign: str = "") -> str:
    return f"{value:{sign}.3f}" + ("" if error is None else f" ± {error:.3f}")
