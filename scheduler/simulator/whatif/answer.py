"""What came out of a what-if, in figures with their uncertainty over seeds and in words.

Every point meets the same executions as the present settings for the same seed, so their ratio is taken seed by seed.
Intervals are 95% intervals of the mean over seeds (Student's t), of ratios on their logarithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev
from typing import Any

from scheduler.simulator.whatif.question import describe, why_not_live

#: Two-sided 95% quantiles of Student's t by degrees of freedom.
_T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093),
)
#: Smaller differences are no reason to change a setting, however certain they are.
WORTH = 0.01
STALENESS_WORTH = 0.1
FEW_GROUPS = 16
POOR_FIT = 0.05


@dataclass(frozen=True)
class Interval:
    """Mean and 95% interval; low and high equal the mean with a single value."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        mean = fmean(values)
        if len(values) < 2:
            return cls(mean, mean, mean)
        half = _T95[min(len(values) - 1, len(_T95)) - 1] * stdev(values) / sqrt(len(values))
        return cls(mean, mean - half, mean + half)

    @classmethod
    def of_ratios(cls, values: Sequence[float]) -> Interval:
        found = cls.of([log(value) for value in values])
        return cls(exp(found.mean), exp(found.low), exp(found.high))


@dataclass(frozen=True)
class PointAnswer:
    """One point. `hours` and the ratios are None while no seed is done, or when it got stuck (`error`)."""

    number: int
    changes: Mapping[str, Any]
    label: str
    num_done: int
    error: str = ""
    hours: Interval | None = None
    hours_per_step: Interval | None = None
    cell_hours: Interval | None = None
    ratio: Interval | None = None  # of hours to the present settings
    cell_ratio: Interval | None = None  # of cell-hours
    mean_staleness: float | None = None
    steps: int = 0
    hours_then: float | None = None  # mean over seeds, from the start to the last recorded step
    why_not_live: str = ""

    @property
    def differs(self) -> bool:
        """Beyond the noise, and enough to matter."""
        ratio = self.ratio
        return ratio is not None and not ratio.low <= 1.0 <= ratio.high and abs(ratio.mean - 1.0) >= WORTH

    @property
    def faster(self) -> bool:
        return self.differs and self.ratio is not None and self.ratio.mean < 1.0

    @property
    def words(self) -> str:
        """ "12% longer [8, 15]"."""
        if self.error:
            return "gets stuck"
        if self.ratio is None:
            return ""
        if not self.number:
            return "as it is"
        return in_words(self.ratio, "longer", "shorter") if self.differs else f"no difference {_noise(self.ratio)}"


def answers(points: Sequence[Mapping[str, Any]]) -> list[PointAnswer]:
    """`points`: number, changes, results, as their rows hold them; the present settings first."""
    base: dict[int, Mapping[str, Any]] = {}
    found = []
    for point in points:
        done = {result["seed"]: result for result in point["results"]}
        if not point["number"]:
            base = {seed: result for seed, result in done.items() if "error" not in result}
        found.append(_answer(point, done, base))
    return found


def _answer(
    point: Mapping[str, Any], done: Mapping[int, Mapping[str, Any]], base: Mapping[int, Mapping[str, Any]]
) -> PointAnswer:
    changes = point["changes"]
    stuck = next((result["error"] for result in done.values() if "error" in result), "")
    common: dict[str, Any] = {
        "number": point["number"], "changes": changes, "label": describe(changes), "num_done": len(done),
        "why_not_live": why_not_live(changes),
    }  # fmt: skip
    rows = list(done.values())
    if stuck or not rows:
        return PointAnswer(**common, error=stuck)
    paired = [(row, base[seed]) for seed, row in done.items() if seed in base and base[seed]["hours"] > 0]
    staleness = [row["E_d"] for row in rows if row["E_d"] is not None]
    return PointAnswer(
        **common,
        hours=Interval.of([row["hours"] for row in rows]),
        hours_per_step=Interval.of([row["hours"] / max(1, row["steps"]) for row in rows]),
        cell_hours=Interval.of([row["cell_hours"] for row in rows]),
        ratio=Interval.of_ratios([mine["hours"] / theirs["hours"] for mine, theirs in paired]) if paired else None,
        cell_ratio=(
            Interval.of_ratios([mine["cell_hours"] / theirs["cell_hours"] for mine, theirs in paired])
            if paired
            else None
        ),
        mean_staleness=fmean(staleness) if staleness else None,
        steps=max(row["steps"] for row in rows),
        hours_then=_mean_then(rows),
    )


def _mean_then(rows: Sequence[Mapping[str, Any]]) -> float | None:
    found = [row["hours_then"] for row in rows if row.get("hours_then") is not None]
    return fmean(found) if len(found) == len(rows) else None


@dataclass(frozen=True)
class AgainstRecorded:
    """Hours per step of the present settings as the answer has them, and as the run took them over the same span."""

    answered: float
    recorded: float

    @property
    def error(self) -> float:
        return self.answered / self.recorded - 1.0


def against_recorded(points: Sequence[PointAnswer], fit: Mapping[str, Any]) -> AgainstRecorded | None:
    """Of a run that is asked whole: the whole of it when it has ended, else up to the last step that is recorded.

    None when the answer begins where the run stands, of which nothing is recorded.
    """
    recorded, steps = fit.get("recorded", {}).get("hours_per_step"), fit.get("steps")
    if not points or points[0].hours is None or points[0].hours_then is None or not recorded or not steps:
        return None
    hours = points[0].hours.mean if fit.get("whole") else points[0].hours_then
    return AgainstRecorded(hours / steps, recorded)


def in_words(ratio: Interval, more: str, less: str) -> str:
    """ "12% longer [8, 15]": percent against the present settings."""
    if ratio.low < 1.0 < ratio.high:
        return _noise(ratio)
    low, high = sorted((abs(100 * (ratio.low - 1)), abs(100 * (ratio.high - 1))))
    mean = abs(100 * (ratio.mean - 1))
    places = 0 if mean >= 10 else 1
    return f"{mean:.{places}f}% {more if ratio.mean > 1 else less} [{low:.{places}f}, {high:.{places}f}]"


def _noise(ratio: Interval) -> str:
    low, mean, high = (_signed(100 * (value - 1)) for value in (ratio.low, ratio.mean, ratio.high))
    return f"beyond the noise: {mean}% [{low}, {high}]" if ratio.low <= 1.0 <= ratio.high else f"to speak of: {mean}%"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−") if abs(value) >= 0.05 else "0"


def best_of(points: Sequence[PointAnswer]) -> PointAnswer | None:
    """The fastest point that is faster than the present settings beyond the noise, with no more GPUs than now."""
    same = [point for point in points if point.faster and not _more_gpus(point)]
    return min(same, key=lambda point: point.ratio.mean if point.ratio else 1.0, default=None)


def _more_gpus(point: PointAnswer) -> bool:
    return point.cell_ratio is not None and point.ratio is not None and point.cell_ratio.mean > point.ratio.mean * 1.001


def recommendation(points: Sequence[PointAnswer], fit: Mapping[str, Any]) -> list[str]:
    """Sentences: what to do first, then what it costs, then what to doubt. Empty before every point is done."""
    tried = [point for point in points if point.number and point.ratio is not None]
    if not points or points[0].hours is None or not tried:
        stuck = [point for point in points if point.error]
        return [f"With {stuck[0].label} the simulation gets stuck: {stuck[0].error}"] if stuck else []
    best = best_of(points)
    said = [_about_best(best, tried) if best is not None else _about_none(tried)]
    said += _about_gpus(tried, best)
    said += [
        f"With {point.label} the run gets stuck and does not end: {point.error}." for point in points if point.error
    ][:3]
    return said + _doubts(points, fit)


def _about_best(best: PointAnswer, tried: Sequence[PointAnswer]) -> str:
    assert best.ratio is not None
    text = f"With {best.label} it would take {in_words(best.ratio, 'longer', 'less time')} than the present settings"
    high = best.ratio.high
    alike = [p for p in tried if p is not best and p.faster and p.ratio and p.ratio.low < high and not _more_gpus(p)]
    if alike:
        text += f"; {alike[0].label} is as good within the noise"
    return text + _staleness(best) + "."


def _staleness(point: PointAnswer) -> str:
    return f", at a mean staleness of {point.mean_staleness:.1f}" if point.mean_staleness is not None else ""


def _about_none(tried: Sequence[PointAnswer]) -> str:
    worse = [point for point in tried if point.differs]
    if len(tried) == 1:
        point = tried[0]
        assert point.ratio is not None
        if point.faster:
            return f"With {point.label} it would take {in_words(point.ratio, 'longer', 'less time')}, on more GPUs."
        if point.differs:
            return f"With {point.label} it would take {in_words(point.ratio, 'longer', 'less time')}: keep what is."
        return f"With {point.label} there is no difference {_noise(point.ratio)}."
    if not worse:
        return "Nothing that was tried differs from the present settings beyond the noise."
    return "Keep the present settings: with as many GPUs nothing that was tried is faster beyond the noise."


def _about_gpus(tried: Sequence[PointAnswer], best: PointAnswer | None) -> list[str]:
    """For points with other cells that nothing beats in both: the time against what it costs."""
    if len(tried) == 1 and not tried[0].faster:
        return []  # said already
    found = []
    for point in tried:
        if point is best or point.ratio is None or point.cell_ratio is None or "cells" not in point.changes:
            continue
        if not any(_beats(other, point) for other in tried):
            time = in_words(point.ratio, "longer", "less time") if point.differs else "about as long"
            cost = point.cell_ratio.mean - 1.0
            price = f"{abs(100 * cost):.0f}% {'more' if cost > 0 else 'fewer'} cell-hours"
            found.append(f"{point.label}: {time}, for {price}.")
    return found[:3]


def _beats(one: PointAnswer, other: PointAnswer) -> bool:
    """About as fast or faster for clearly fewer cell-hours, or faster for about as many."""
    if one is other or one.ratio is None or one.cell_ratio is None or other.ratio is None or other.cell_ratio is None:
        return False
    faster, cheaper = one.ratio.mean / other.ratio.mean, one.cell_ratio.mean / other.cell_ratio.mean
    return (faster < 1.0 + WORTH and cheaper < 1.0 - WORTH) or (faster < 1.0 - WORTH and cheaper < 1.0 + WORTH)


def _doubts(points: Sequence[PointAnswer], fit: Mapping[str, Any]) -> list[str]:
    found = []
    base = points[0].mean_staleness
    for point in points[1:]:
        if base is not None and point.mean_staleness is not None and point.faster:
            change = point.mean_staleness - base
            if change > STALENESS_WORTH:
                found.append(
                    f"With {point.label} it trains on older tokens: E[d] {base:.1f} becomes {base + change:.1f}."
                )
    against = against_recorded(points, fit)
    error = against.error if against is not None else fit.get("error", {}).get("hours_per_step")
    if error is not None and abs(error) > POOR_FIT:
        found.append(
            f"Take it with care: simulated with its own settings this run is {abs(100 * error):.0f}% "
            f"{'slower' if error > 0 else 'faster'} than it was."
        )
    if fit.get("groups", FEW_GROUPS) < FEW_GROUPS:
        found.append(f"It rests on {fit['groups']} complete groups only; ask again when more are recorded.")
    return found[:4]
