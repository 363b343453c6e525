"""Everything a study leaves in a directory: results.jsonl and its plots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from scheduler.simulations.report import run_rows
from scheduler.simulations.study import Study
from scheduler.simulations.summary import Summary


def write_results(summaries: Sequence[Summary], preset: str, directory: Path, gpus_per_cell: int = 0) -> list[Path]:
    """One line per policy and seed and one per point, as `--json` prints them. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "results.jsonl"
    with path.open("w") as file:
        for summary in summaries:
            for row in run_rows(summary, gpus_per_cell):
                file.write(json.dumps(row) + "\n")
            file.write(json.dumps(summary.to_json(preset)) + "\n")
    return [path]


def write_plots(study: Study, summaries: Sequence[Summary], directory: Path) -> list[Path]:
    """Of a single point: hours, staleness, timelines. Of a sweep: curves over every swept setting. Raises OSError."""
    from scheduler.simulations import plots, plots_timeline  # matplotlib takes a second to load

    drawn = [summary for summary in summaries if any(policy.results for policy in summary.policies)]
    if not drawn:
        return []
    keys = list(study.points[0].changes)
    swept = [key for key in keys if len({summary.point.changes[key] for summary in drawn}) > 1]
    paths: list[Path] = []
    for key in swept:
        paths += plots.plot_sweep(drawn, key, directory)
    if len(drawn) > 1:
        return paths
    (summary,) = drawn
    scenario = summary.point.scenario
    paths += plots.plot_hours(summary, directory) + plots.plot_staleness(summary, directory)
    shown = [policy.results[0] for policy in summary.policies if policy.results and policy.results[0].lanes]
    for result in shown:
        paths += plots_timeline.plot_timeline(result, scenario.settings.concurrency_per_cell, directory, scenario.name)
    if len(shown) > 1:
        paths += plots_timeline.plot_timelines(shown, scenario.settings.concurrency_per_cell, directory, scenario.name)
    return paths
