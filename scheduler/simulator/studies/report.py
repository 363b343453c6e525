"""What `manage.py simulate` prints, point by point: tables for people, lines of JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from scheduler.simulator.core import Result
from scheduler.simulator.studies import table
from scheduler.simulator.studies.definitions import definition
from scheduler.simulator.studies.study import REFERENCE, Point, Study
from scheduler.simulator.studies.summary import PolicySummary, Summary


class Report(Protocol):
    def point(self, summary: Summary) -> None:
        """Show a point that is complete, or all that an interrupted study has of it."""

    def close(self) -> None:
        """Nothing more comes."""


class TextReport:
    """A table per point; the definitions of the policies and the legend under the last."""

    def __init__(self, study: Study, changes: Mapping[str, Any], gpus_per_cell: int = 0) -> None:
        self.study, self.gpus_per_cell = study, gpus_per_cell
        self.console = table.console_of()
        swept = {name for point in study.points for name in point.changes}
        table.print_scenario(self.console, study.points[0].scenario, changes, swept)

    def point(self, summary: Summary) -> None:
        table.print_summary(self.console, summary, gpus_per_cell=self.gpus_per_cell)

    def close(self) -> None:
        table.print_legend(self.console, self.study.policies, len(self.study.seeds))


class JsonReport:
    """One object per policy and seed, then one for the point. `write` gets one line each."""

    def __init__(self, study: Study, preset: str, write: Callable[[str], object], gpus_per_cell: int = 0) -> None:
        self.study, self.preset, self.write, self.gpus_per_cell = study, preset, write, gpus_per_cell

    def point(self, summary: Summary) -> None:
        for row in run_rows(summary, self.gpus_per_cell):
            self.write(json.dumps(row))
        shown = dict.fromkeys((REFERENCE, *self.study.policies))
        definitions = {policy: definition(policy) for policy in shown}
        self.write(json.dumps(summary.to_json(self.preset) | {"definitions": definitions}))

    def close(self) -> None:
        pass


def run_rows(summary: Summary, gpus_per_cell: int = 0) -> Iterator[dict[str, Any]]:
    """One object per policy and seed."""
    for policy in summary.policies:
        for result in policy.results:
            yield run_row(summary.point, policy, result, gpus_per_cell)


def run_row(point: Point, policy: PolicySummary, result: Result, gpus_per_cell: int = 0) -> dict[str, Any]:
    row = result.to_json()
    row |= {"switches": sum(result.switches.values()), "switches_by_kind": result.switches}
    row["bound_h"] = result.bounds.work_h * result.steps
    if policy.split is not None:
        row["training_cells"] = policy.split
    if gpus_per_cell:
        row["gpu_hours"] = result.cell_hours * gpus_per_cell
    if point.changes:
        row["set"] = dict(point.changes)
    return row
