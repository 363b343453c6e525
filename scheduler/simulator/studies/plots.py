"""Plots of a study, each as PNG and SVG: hours against the bound, staleness, curves over swept settings.

Drawn with matplotlib's own objects, without its global state; nothing opens a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from scheduler.simulator.studies.sensitivity import NAMES
from scheduler.simulator.studies.study import REFERENCE
from scheduler.simulator.studies.summary import PolicySummary, Summary, t_interval

INK, INK_2, LINE = "#161b22", "#5b6673", "#e4e8ed"
COLOURS = {
    "elastic": "#2b8cc4",
    "elastic+": "#14774c",
    "colocate": "#d98a12",
    "async-barrier": "#8e99a6",
    "async-streamed": "#7c5cd6",
    "async-best": "#c8372d",
}
OTHERS = ("#82634a", "#2563a8", "#626d0e")
STYLE: Any = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "font.size": 10,
    "axes.edgecolor": "#cfd6df",
    "axes.labelcolor": INK_2,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": INK_2,
    "ytick.color": INK_2,
    "text.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "gyre",  # the same study gives the same file
}
DPI = 144


def colour_of(policy: str) -> str:
    return COLOURS.get(policy) or OTHERS[sum(map(ord, policy)) % len(OTHERS)]


def save(figure: Figure, directory: Path, name: str) -> list[Path]:
    """As PNG and SVG. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"{name}.png", directory / f"{name}.svg"]
    figure.savefig(paths[0], dpi=DPI)
    figure.savefig(paths[1], metadata={"Date": None})
    return paths


def plot_hours(summary: Summary, directory: Path, name: str = "hours") -> list[Path]:
    """A bar per policy, a dot per seed, and the bound that no schedule beats."""
    policies = [policy for policy in summary.policies if policy.results]
    with rc_context(STYLE):
        figure = Figure(figsize=(8.4, 1.5 + 0.52 * len(policies)), layout="constrained")
        axes = figure.add_subplot()
        for place, policy in enumerate(policies):
            axes.barh(place, policy.hours, height=0.62, color=colour_of(policy.policy), alpha=0.82)
            hours = [result.hours for result in policy.results]
            axes.plot(hours, [place] * len(hours), "o", ms=3.6, color=INK, alpha=0.55, mew=0)
            ratio = "" if policy.ratio is None or policy.ratio == 1.0 else f"   {policy.ratio:.2f}×"
            right = max(hours)
            axes.text(right, place, f"  {policy.hours:.1f} h{ratio}", va="center", fontsize=9.5)
        bounds = [result.bounds.work_h * result.steps for policy in policies for result in policy.results]
        bound = sorted(bounds)[len(bounds) // 2]
        axes.axvline(bound, color=INK, lw=1.4, ls=(0, (5, 3)))
        axes.text(bound, -0.62, f"bound {bound:.1f} h ", ha="right", va="center", fontsize=9, color=INK)
        axes.set_yticks(range(len(policies)), [policy.policy for policy in policies], color=INK)
        axes.set_ylim(len(policies) - 0.45, -0.9)
        axes.set_xlim(0, 1.2 * max(result.hours for policy in policies for result in policy.results))
        axes.set_xlabel(f"hours for {policies[0].results[0].steps} optimizer steps")
        axes.grid(axis="y", visible=False)
        axes.set_title(f"{summary.point.scenario.name}: {_seeds(summary)}; × is the ratio to elastic")
        return save(figure, directory, name)


def plot_staleness(summary: Summary, directory: Path, name: str = "staleness") -> list[Path]:
    """Share of trained executions by staleness, per policy, first seed."""
    policies = [policy for policy in summary.policies if policy.results]
    versions = sorted({d for policy in policies for d in policy.results[0].staleness})
    width = 0.8 / len(policies)
    with rc_context(STYLE):
        figure = Figure(figsize=(8.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for place, policy in enumerate(policies):
            shares = policy.results[0].staleness
            at = [d - 0.4 + width * (place + 0.5) for d in versions]
            label = f"{policy.policy}, mean {policy.results[0].mean_staleness:.2f}"
            heights = [shares.get(d, 0.0) for d in versions]
            axes.bar(at, heights, width=width * 0.9, color=colour_of(policy.policy), alpha=0.85, label=label)
        axes.set_xticks(versions)
        axes.set_xlabel("staleness: version that trains − version at launch")
        axes.set_ylabel("trained executions")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.grid(axis="x", visible=False)
        axes.set_title(f"{summary.point.scenario.name}: staleness, seed {policies[0].results[0].seed}")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", fontsize=9)
        return save(figure, directory, name)


def plot_sweep(summaries: Sequence[Summary], key: str, directory: Path) -> list[Path]:
    """Hours per step and ratio to elastic over one swept setting; a column of panels per value of the others."""
    panels = list(_panels(summaries, key))
    with rc_context(STYLE):
        size = (max(7.6, 3.9 * len(panels) + 1.4), 6.4)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(2, len(panels), sharex="col", sharey="row", squeeze=False)
        for place, (others, rows) in enumerate(panels):
            _draw_sweep(grid[0][place], rows, key, _hours_per_step, with_bound=True)
            _draw_sweep(grid[1][place], rows, key, _ratios, with_bound=False)
            grid[1][place].axhline(1.0, color=INK_2, lw=1.0, ls=(0, (2, 2)))
            grid[1][place].set_xlabel(key)
            title = ", ".join(f"{name} {value:g}" for name, value in others.items())
            grid[0][place].set_title(title or f"{rows[0].point.scenario.name}: {key}")
        grid[0][0].set_ylim(bottom=0)  # of the whole row
        grid[0][0].set_ylabel("hours per step")
        grid[1][0].set_ylabel("ratio to elastic")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=9)
        figure.text(
            0.995,
            0.005,
            f"{summaries[0].point.scenario.name}, {_seeds(summaries[0])}; bands: 95% t intervals",
            ha="right",
            fontsize=8,
            color=INK_2,
        )
        return save(figure, directory, f"sweep-{key}")


def plot_overview(swept: Mapping[str, Sequence[Summary]], directory: Path) -> list[Path]:
    """Hours per step over each setting that was moved alone, side by side, every scale from zero."""
    columns = min(4, len(swept))
    rows = -(-len(swept) // columns)
    with rc_context(STYLE | {"font.size": 8.5, "axes.titlesize": 9}):
        figure = Figure(figsize=(3.2 * columns + 0.6, 2.5 * rows + 0.5), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False)
        for place, axes in enumerate(panels.flat):
            if place >= len(swept):
                axes.set_axis_off()
                continue
            key, points = list(swept.items())[place]
            ordered = sorted(points, key=lambda row: _uncapped_last(key, row.point.changes[key]))
            _draw_sweep(axes, ordered, key, _hours_per_step, with_bound=True)
            axes.set_ylim(bottom=0)
            axes.set_title(NAMES.get(key, key), fontsize=8.5)
            if place % columns == 0:
                axes.set_ylabel("hours per step")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
        first = next(iter(swept.values()))[0]
        title = f"{first.point.scenario.name}: one setting moved at a time ({_seeds(first)}, 95% t intervals)"
        figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
        return save(figure, directory, "sensitivity")


def _panels(summaries: Sequence[Summary], key: str) -> Iterator[tuple[dict[str, Any], list[Summary]]]:
    by_others: dict[tuple[tuple[str, Any], ...], list[Summary]] = {}
    for summary in summaries:
        others = tuple((name, value) for name, value in summary.point.changes.items() if name != key)
        by_others.setdefault(others, []).append(summary)
    for others, rows in by_others.items():
        yield dict(others), sorted(rows, key=lambda row: _uncapped_last(key, row.point.changes[key]))


def _uncapped_last(key: str, value: float) -> float:
    return float("inf") if key == "j_max" and value <= 0 else value


def _draw_sweep(axes: Axes, rows: Sequence[Summary], key: str, values_of: Any, *, with_bound: bool) -> None:
    values = [row.point.changes[key] for row in rows]
    at = range(len(values)) if values != sorted(values) or _uneven(values) else values
    for name in dict.fromkeys(policy.policy for row in rows for policy in row.policies if policy.results):
        points = []
        for x, row in zip(at, rows, strict=True):
            found = next((policy for policy in row.policies if policy.policy == name and policy.results), None)
            if found is not None and (figures := values_of(found, row)) is not None:
                points.append((x, *figures))
        if not points:
            continue
        xs, middles, lows, highs = zip(*points, strict=True)
        colour = colour_of(name)
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.14, lw=0)
        axes.plot(xs, middles, "-o", color=colour, lw=1.9, ms=4.4, label=name)
    if with_bound:
        bounds = [row.first.bound_h_per_step if row.first else float("nan") for row in rows]
        axes.plot(at, bounds, color=INK, lw=1.3, ls=(0, (5, 3)), label="bound")
    labels = ["no cap" if _uncapped_last(key, value) == float("inf") else f"{value:g}" for value in values]
    axes.set_xticks(list(at), labels)


def _uneven(values: Sequence[float]) -> bool:
    """True when the values are better shown side by side than to scale."""
    gaps = [after - before for before, after in pairwise(values)]
    return bool(gaps) and max(gaps) > 4 * min(gaps)


def _hours_per_step(policy: PolicySummary, row: Summary) -> tuple[float, float, float]:
    low, high = t_interval([result.hours_per_step for result in policy.results]) or (policy.hours_per_step,) * 2
    return policy.hours_per_step, low, high


def _ratios(policy: PolicySummary, row: Summary) -> tuple[float, float, float] | None:
    if policy.ratio is None or policy.policy == REFERENCE:
        return None
    low, high = policy.ratio_interval or (policy.ratio, policy.ratio)
    return policy.ratio, low, high


def _seeds(summary: Summary) -> str:
    count = len(summary.seeds)
    return f"seed {summary.seeds[0]}" if count == 1 else f"median of {count} seeds"
