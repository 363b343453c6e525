"""A simulated run over time: waterlevel under the room of the cells in rollout, and a lane per cell."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from scheduler.simulator.core import Result
from scheduler.simulator.core.workload import HOUR_S
from scheduler.simulator.studies.plots import INK, INK_2, LINE, STYLE, save

ROLES = {
    "rollout": ("#2b8cc4", 0.62, 0.48),
    "training": ("#d98a12", 1.0, 0.82),
    "switching": ("#7c5cd6", 1.0, 0.82),
    "lost": ("#c8372d", 1.0, 0.82),
}
WATER, FILL = "#2b8cc4", "#d3e7f3"


def plot_timeline(result: Result, room_per_cell: int, directory: Path, title: str) -> list[Path]:
    """The whole run of one policy and seed."""
    with rc_context(STYLE):
        figure = Figure(figsize=(12.0, 3.0 + 0.24 * result.cells), layout="constrained")
        water, lanes = figure.subplots(2, 1, sharex=True, height_ratios=[2.4, 0.5 + 0.24 * result.cells])
        _draw(water, lanes, result, room_per_cell, result.hours)
        water.set_title(f"{title}: {result.policy}, seed {result.seed}, {result.hours:.1f} h")
        lanes.set_xlabel("hours")
        _legend(figure)
        return save(figure, directory, f"timeline-{result.policy}")


def plot_timelines(results: Sequence[Result], room_per_cell: int, directory: Path, title: str) -> list[Path]:
    """The beginning of every policy on one time axis: the first two bursts of the slowest, at most."""
    until_h = min(max(result.hours for result in results), 2.2 * _first_burst_h(results))
    cells = results[0].cells
    with rc_context(STYLE):
        figure = Figure(figsize=(12.0, (2.0 + 0.15 * cells) * len(results) + 0.6), layout="constrained")
        ratios = [1.7, 0.3 + 0.14 * cells] * len(results)
        axes = figure.subplots(2 * len(results), 1, sharex=True, height_ratios=ratios)
        for place, result in enumerate(results):
            _draw(axes[2 * place], axes[2 * place + 1], result, room_per_cell, until_h)
            done = sum(step.finished_s <= until_h * HOUR_S for step in result.step_rows)
            axes[2 * place].set_title(f"{result.policy}: {done} steps in the first {until_h:.0f} h")
        axes[-1].set_xlabel(f"hours; {title}, seed {results[0].seed}")
        _legend(figure)
        return save(figure, directory, "timelines")


def _first_burst_h(results: Sequence[Result]) -> float:
    """Until every policy has refilled: W rises again for the second time."""
    rises = []
    for result in results:
        points = result.waterlevel
        again = [t for (_, before), (t, level) in pairwise(points) if level > before]
        rises.append(again[0] if again else points[-1][0] if points else 0.0)
    return max(rises) / HOUR_S


def _draw(water: Axes, lanes: Axes, result: Result, room_per_cell: int, until_h: float) -> None:
    end_s = min(result.hours, until_h) * HOUR_S
    times, levels = _until(result.waterlevel, end_s)
    hours = [t / HOUR_S for t in times]
    water.fill_between(hours, levels, step="post", color=FILL, lw=0)
    water.step(hours, levels, where="post", color=WATER, lw=1.3)
    stairs = _room(result, end_s)
    water.step(
        [t / HOUR_S for t, _ in stairs], [n * room_per_cell for _, n in stairs], where="post", color=INK_2, lw=1.1
    )
    for step in result.step_rows:
        if step.finished_s <= end_s:
            water.plot(step.finished_s / HOUR_S, 0, "D", color=INK, ms=3.0, clip_on=False, zorder=5)
    water.set_ylim(bottom=0)
    water.set_ylabel("executions")
    lanes.set_xlim(0, until_h)
    for row, lane in enumerate(result.lanes):
        lanes.broken_barh([(0, end_s / HOUR_S)], (row - 0.41, 0.82), facecolor=LINE, lw=0)
        ends = [t for t, _ in lane[1:]] + [result.hours * HOUR_S]
        for role, (colour, alpha, height) in ROLES.items():
            spans = [
                (start / HOUR_S, max((min(end, end_s) - start) / HOUR_S, 0.0))
                for (start, its), end in zip(lane, ends, strict=True)
                if its == role and start < end_s
            ]
            if spans:
                lanes.broken_barh(spans, (row - height / 2, height), facecolor=colour, alpha=alpha, lw=0)
    every = -(-result.cells // 12)
    rows = range(0, result.cells, every)
    lanes.set_yticks(list(rows), ["core" if row == 0 else f"cell {row}" for row in rows], fontsize=8)
    lanes.set_ylim(result.cells - 0.4, -0.6)
    lanes.grid(visible=False)
    lanes.tick_params(axis="y", length=0)
    lanes.spines["left"].set_visible(False)


def _until(points: Sequence[tuple[float, int]], end_s: float) -> tuple[list[float], list[int]]:
    kept = points[: bisect_right(points, (end_s, float("inf")))]
    times, levels = [t for t, _ in kept], [level for _, level in kept]
    return [*times, end_s], [*levels, levels[-1] if levels else 0]


def _room(result: Result, end_s: float) -> list[tuple[float, int]]:
    """Cells in rollout over time."""
    changes: list[tuple[float, int]] = []
    for lane in result.lanes:
        was = False
        for t, role in lane:
            now = role == "rollout"
            if now != was:
                changes.append((t, 1 if now else -1))
            was = now
    count, stairs = 0, []
    for t, by in sorted(changes):
        if t > end_s:
            break
        count += by
        stairs.append((t, count))
    return [*stairs, (end_s, count)]


def _legend(figure: Figure) -> None:
    handles = [
        Patch(facecolor=FILL, edgecolor=WATER, label="waterlevel"),
        Line2D([], [], color=INK_2, lw=1.2, label="room of the cells in rollout"),
        Line2D([], [], color=INK, marker="D", ms=4, lw=0, label="optimizer step"),
        *(Patch(facecolor=colour, alpha=alpha, label=role) for role, (colour, alpha, _) in ROLES.items()),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8.5)
