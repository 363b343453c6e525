"""Save what a study came to: one simulation per point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents import facade as agents
from agents.actions.launch_run import default_project
from scheduler.actions.save_simulation import save_simulation
from scheduler.simulations.models import Simulation
from scheduler.simulations.summary import Summary


def save_all(
    summaries: Sequence[Summary], changes: Mapping[str, Any], *, fitted_from: int | None, command: str
) -> list[Simulation]:
    """Into the project of the run that was fitted, else into the default one. Points without a result are left out.

    Raises ValueError when no point has a result.
    """
    run = agents.run(fitted_from) if fitted_from is not None else None
    project = run.project if run is not None else default_project()
    there = [summary for summary in summaries if any(policy.results for policy in summary.policies)]
    if not there:
        raise ValueError("no simulated run came to an end: there is nothing to save")
    return [
        save_simulation(summary, project=project, user=None, command=command, changes=changes, fitted_from=run)
        for summary in there
    ]
