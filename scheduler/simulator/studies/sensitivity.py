"""The settings that matter most to a schedule, each moved alone around a scenario."""

from __future__ import annotations

from scheduler.simulator.scenarios import Scenario

NAMES = {
    "rho_min": "rho_min: share of a batch to be ready",
    "burst_batches": "S: batches per burst",
    "executions_per_group": "N: executions per group",
    "tail_share": "tail: executions with a Pareto factor",
    "cells": "K: cells",
    "to_training_s": "seconds of a switch to training",
    "j_max": "J_max: trajectories per execution",
}


def values(scenario: Scenario) -> dict[str, list[float]]:
    """Values to try per setting. The scenario's own is among them; some may not fit it and are then left out."""
    settings, workload = scenario.settings, scenario.workload
    around: dict[str, list[float]] = {
        "rho_min": [0.05, 0.1, 0.25, 0.5, 0.75, 1.0, settings.rho_min],
        "burst_batches": [*range(1, settings.max_staleness + 2 - settings.burst_lead)],
        "executions_per_group": [4, 8, 12, 16, 20, settings.executions_per_group],
        "tail_share": [0.0, 0.05, 0.1, 0.2, workload.tail_share],
        "cells": [*range(max(2, settings.cells - 2), settings.cells + 3), settings.cells + 4],
        "to_training_s": [0.0, 60.0, 300.0, 900.0, workload.to_training_s],
        "j_max": [1, 2, 3, 5, 8, settings.j_max],
    }
    found = {name: sorted(set(several)) for name, several in around.items()}
    found["j_max"] = [value for value in found["j_max"] if value > 0] + [0]  # 0: no cap
    return found
