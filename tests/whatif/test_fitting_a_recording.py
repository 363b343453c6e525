"""A scenario fitted to a run's rows reproduces the run that they came from, and its settings' effects."""

from __future__ import annotations

import pytest

from agents.models import Project, Run
from scheduler.simulator.core import simulate
from scheduler.simulator.scenarios import BadScenario, Scenario, load
from scheduler.simulator.studies.fit import TooLittle, fit_run, trajectories_q
from tests.whatif.simulated_rows import write_run

#: A cluster whose executions do not slow with load: what a recording without calls can say of a run.
CHANGES = {
    "cells": 3, "concurrency_per_cell": 24, "groups_per_batch": 4, "executions_per_group": 6, "steps": 6,
    "burst_batches": 2, "max_staleness": 1, "execution_h": 0.2, "cap_h": 0.6, "train_cell_h": 0.4,
    "micro_steps_per_group": 4, "alpha": 1.0, "environment_share": 0.0, "dp_efficiency": 0.97, "commit_s": 20.0,
    "move_stall_s": 0.0, "resume_stall_s": 0.0, "evaluation_s": 15.0, "unresolved_share": 0.05, "no_work_share": 0.05,
    "min_rollout_cells": 0, "rho_min": 0.5,
}  # fmt: skip


@pytest.fixture
def scenario() -> Scenario:
    return load("baseline-set").changed(CHANGES)


@pytest.fixture
def run(scenario: Scenario, project: Project) -> Run:
    return write_run(scenario, project)


def test_the_fitted_scenario_reproduces_the_run_within_two_percent(scenario: Scenario, run: Run) -> None:
    fitted = fit_run(run.pk)
    whole = simulate(scenario.settings, scenario.workload, "elastic", 1)
    again = simulate(fitted.settings, fitted.workload, "elastic", 1, recorded=fitted.recorded)
    assert again.hours == pytest.approx(whole.hours, rel=0.02)
    assert again.execution_h == pytest.approx(whole.execution_h, rel=0.01)
    assert abs(fitted.fit["error"]["hours_per_step"]) < 0.02
    assert abs(fitted.fit["error"]["execution_s"]) < 0.01
    assert (fitted.fit["groups"], fitted.fit["steps"]) == (24, 6)


def test_measured_costs_are_those_that_the_run_had(scenario: Scenario, run: Run) -> None:
    fitted, given = fit_run(run.pk).workload, scenario.workload
    assert fitted.to_training_s == pytest.approx(given.to_training_s, rel=1e-3)
    assert fitted.to_rollout_s == pytest.approx(given.to_rollout_s, rel=1e-3)
    assert fitted.commit_s == pytest.approx(given.commit_s, rel=0.05)
    assert fitted.evaluation_s == pytest.approx(given.evaluation_s, rel=1e-3)
    assert fitted.train_cell_h == pytest.approx(given.train_cell_h, rel=0.1)
    assert fitted.unresolved_share == pytest.approx(given.unresolved_share, abs=0.05)
    assert fitted.no_work_share == pytest.approx(given.no_work_share, abs=0.05)


def test_the_effect_of_other_settings_is_that_of_the_cluster_itself(scenario: Scenario, run: Run) -> None:
    fitted = fit_run(run.pk)
    for changes in ({"cells": 6}, {"j_max": 1}, {"burst_batches": 1}, {"rho_min": 1.0}):
        true, guess = scenario.changed(changes), fitted.changed(changes)
        ratios = [
            simulate(s.settings, s.workload, "elastic", 1, recorded=r).hours / base
            for s, r, base in (
                (true, (), simulate(scenario.settings, scenario.workload, "elastic", 1).hours),
                (guess, fitted.recorded, simulate(fitted.settings, fitted.workload, "elastic", 1,
                                                  recorded=fitted.recorded).hours),
            )
        ]  # fmt: skip
        assert ratios[1] == pytest.approx(ratios[0], rel=0.05), changes


def test_held_time_is_no_time_of_an_execution(run: Run) -> None:
    before = fit_run(run.pk).recorded
    run.executions.update(held_s=30.0)
    after = fit_run(run.pk).recorded
    assert [len(group) for group in after] == [len(group) for group in before]
    assert all(
        new == pytest.approx(max(0.0, old - 30.0))
        for one, other in zip(before, after, strict=True)
        for old, new in zip(one, other, strict=True)
    )


def test_groups_that_still_run_do_not_make_everything_look_faster(scenario: Scenario, project: Project) -> None:
    partial = write_run(scenario, project, until_s=0.75 * 3600)
    fitted = fit_run(partial.pk)
    assert fitted.fit["groups"] == partial.groups.exclude(state="dispatched").count()
    assert fitted.fit["groups"] < partial.groups.count()
    assert sum(len(group) for group in fitted.recorded) == fitted.fit["executions"]


def test_too_short_a_recording_is_refused_with_what_is_needed(scenario: Scenario, project: Project) -> None:
    young = write_run(scenario, project, until_s=60.0)
    with pytest.raises(TooLittle) as refused:
        fit_run(young.pk)
    assert str(refused.value).endswith(
        "4 complete groups are needed, 0 are there; 1 optimizer step with timed micro-steps is needed, 0 are there"
    )
    with pytest.raises(BadScenario, match="run 999999 does not exist"):
        fit_run(999999)


@pytest.mark.parametrize("q", [0.2, 0.759, 0.9])
def test_the_number_of_trajectories_gives_back_the_q_that_made_it(q: float) -> None:
    mean = (1 - q**5) / (1 - q)
    low = int(mean)
    share = round(1000 * (mean - low))
    assert trajectories_q([low] * (1000 - share) + [low + 1] * share, 5) == pytest.approx(q, abs=0.005)
    assert trajectories_q([], 5) is None
