"""Save what one point of a study came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import facade as agents
from agents.actions.launch_run import default_project
from scheduler.simulator.actions.save_simulation import save_simulation
from scheduler.simulator.studies.models import Simulation
from scheduler.simulator.studies.summary import Summary


def save(summary: Summary, changes: Mapping[str, Any], *, fitted_from: int | None, command: str) -> Simulation:
    """Into the project of the run that was fitted, else into the default one.

    Raises ValueError when no run of the point came to an end.
    """
    run = agents.run(fitted_from) if fitted_from is not None else None
    project = run.project if run is not None else default_project()
    return save_simulation(summary, project=project, user=None, command=command, changes=changes, fitted_from=run)
