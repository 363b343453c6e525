"""Everything a study leaves in a directory: results.jsonl and its plots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from scheduler.simulator.studies.report import run_rows
from scheduler.simulator.studies.summary import Summary


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


def write_plots(summaries: Sequence[Summary], directory: Path) -> list[Path]:
    """Of a single point: hours, staleness, timelines. Of a sweep: curves over every swept setting. Raises OSError."""
    from scheduler.simulator.studies import plots, plots_timeline  # matplotlib takes a second to load

    drawn = [summary for summary in summaries if any(policy.results for policy in summary.policies)]
    if not drawn:
        return []
    paths: list[Path] = []
    by_key: dict[str, list[Summary]] = {}
    for summary in drawn:
        for key in summary.point.changes:
            by_key.setdefault(key, []).append(summary)
    swept = {key: rows for key, rows in by_key.items() if len({row.point.changes[key] for row in rows}) > 1}
    for key, rows in swept.items():
        paths += plots.plot_sweep(rows, key, directory)
    if len(swept) > 1 and all(len(summary.point.changes) == 1 for summary in drawn):
        paths += plots.plot_overview(swept, directory)
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
