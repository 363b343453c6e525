"""A cluster small enough that a run of it is simulated in milliseconds."""

from __future__ import annotations

from pathlib import Path

from scheduler.simulator import scenarios
from scheduler.simulator.scenarios import Scenario
from scheduler.simulator.scenarios.files import to_toml

TABLES = {
    "description": "Three cells, for tests.",
    "settings": {
        "cells": 3,
        "concurrency_per_cell": 16,
        "groups_per_batch": 3,
        "executions_per_group": 4,
        "steps": 8,
        "burst_batches": 4,
        "rho_min": 0.34,
    },
    "workload": {"execution_h": 1.0, "train_cell_h": 0.8, "micro_steps_per_group": 2, "commit_s": 60},
}


def small(**changes: float) -> Scenario:
    return scenarios.parse(TABLES, "small").changed(changes)


def small_file(directory: Path, **changes: float) -> Path:
    path = directory / "small.toml"
    path.write_text(to_toml(small(**changes)))
    return path
