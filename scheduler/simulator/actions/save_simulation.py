"""Keep one point of a study, so that the dashboard can show it."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from agents.models import Project, Run
from scheduler.core.jsonform import to_json
from scheduler.simulator.studies.models import SimulatedDecision, SimulatedRun, Simulation
from scheduler.simulator.studies.report import run_row
from scheduler.simulator.studies.summary import Summary

SERIES = ("waterlevel", "lanes", "step_rows")


def save_simulation(
    summary: Summary,
    *,
    project: Project,
    user: AbstractBaseUser | None,
    command: str,
    changes: Mapping[str, Any],
    fitted_from: Run | None = None,
) -> Simulation:
    """All policies and seeds that came to an end, in one transaction. `changes`: what differs from the preset.

    Raises ValueError when none did.
    """
    if not any(policy.results for policy in summary.policies):
        raise ValueError("no simulated run came to an end: there is nothing to save")
    scenario = summary.point.scenario
    with transaction.atomic():
        simulation = Simulation.objects.create(
            project=project,
            name=scenario.name,
            settings=to_json(scenario.settings),
            workload=to_json(scenario.workload),
            changes={**changes, **summary.point.changes},
            num_recorded=sum(len(group) for group in scenario.recorded),
            seeds=list(summary.seeds),
            summary=summary.to_json(scenario.name),
            command=command,
            fitted_from=fitted_from,
            created_by=user,
        )
        for policy in summary.policies:
            for result in policy.results:
                series = result.to_json(series=True)
                run = SimulatedRun.objects.create(
                    simulation=simulation,
                    policy_kind=result.policy,
                    seed=result.seed,
                    training_cells=policy.split,
                    hours=result.hours,
                    result=run_row(summary.point, policy, result),
                    series={name: series[name] for name in SERIES} if result.lanes else {},
                )
                SimulatedDecision.objects.bulk_create(
                    [SimulatedDecision(run=run, **row) for row in result.decisions], batch_size=500
                )
    return simulation
