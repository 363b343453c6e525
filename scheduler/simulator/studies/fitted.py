"""A live run as a scenario, with settings changed; an effect of load that is given goes before the measured one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduler.simulator.scenarios import BadScenario, Scenario
from scheduler.simulator.studies.fit import fit, fit_error
from scheduler.simulator.studies.load import Loads, at_full_load, mean_load
from scheduler.simulator.studies.recorded import read
from scheduler.simulator.studies.room import rooms

#: How a cell's load slows its executions: read off the run's calls, unless it is given.
LOAD_PARAMETERS = frozenset({"alpha", "environment_share"})


def fitted(run_id: int, changes: Mapping[str, Any]) -> Scenario:
    """Raises BadScenario: no such run, too little recorded, settings that cannot be."""
    recording = read(run_id)
    if recording is None:
        raise BadScenario(f"run {run_id} does not exist")
    scenario = fit(recording)
    loads = Loads.of(recording, rooms(run_id), scenario.settings.concurrency_per_cell)
    load = mean_load(recording, loads)
    scenario = replace(scenario, fit={**scenario.fit, "mean_load": load}).changed(changes)
    if not LOAD_PARAMETERS & set(changes):
        return scenario
    converted = replace(scenario, recorded=at_full_load(recording, loads, scenario.workload))
    effect = {name: getattr(scenario.workload, name) for name in LOAD_PARAMETERS}
    as_it_was = replace(fit(recording), recorded=converted.recorded)
    error = fit_error(recording, replace(as_it_was, workload=as_it_was.workload.with_changes(effect)))
    return replace(converted, fit={**scenario.fit, **error, "converted_to_full_load": True})
