"""How load slows a run is read off its calls; durations are then freed from it, so that other cells change them."""

from __future__ import annotations

import pytest

from agents.models import Call, Project, Run
from scheduler.simulator.core import simulate
from scheduler.simulator.scenarios import Scenario, load
from scheduler.simulator.studies.fit import fit_run
from tests.whatif.simulated_rows import write_run
from tests.whatif.test_fitting_a_recording import CHANGES

ALPHA, TOOLS = 0.5, 0.2


@pytest.fixture
def scenario() -> Scenario:
    return load("baseline-set").changed({**CHANGES, "alpha": ALPHA, "environment_share": TOOLS, "steps": 8})


@pytest.fixture
def run(scenario: Scenario, project: Project) -> Run:
    return write_run(scenario, project, num_calls=6)


def test_the_slowdown_that_made_the_calls_is_found_again(run: Run) -> None:
    fitted = fit_run(run.pk)
    assert fitted.workload.alpha == pytest.approx(ALPHA, abs=0.06)
    assert fitted.fit["alpha_error"] < 0.03
    assert fitted.workload.environment_share == pytest.approx(TOOLS, abs=0.05)
    assert fitted.fit["load_note"] == ""


def test_with_it_the_run_is_reproduced_and_more_cells_help_as_much_as_they_do(scenario: Scenario, run: Run) -> None:
    fitted = fit_run(run.pk)
    assert abs(fitted.fit["error"]["execution_s"]) < 0.02
    assert abs(fitted.fit["error"]["hours_per_step"]) < 0.06

    def execution_h(of: Scenario) -> float:
        return simulate(of.settings, of.workload, "elastic", 1, recorded=of.recorded).execution_h

    more = {"cells": 6}
    assert execution_h(fitted.changed(more)) == pytest.approx(execution_h(scenario.changed(more)), rel=0.03)
    slower = execution_h(fitted) / execution_h(fitted.changed(more))
    assert slower > 1.05


def test_without_enough_calls_durations_stay_as_they_were(run: Run) -> None:
    Call.objects.filter(execution__run=run, number__gt=0).delete()
    fitted = fit_run(run.pk)
    assert (fitted.workload.alpha, fitted.workload.environment_share) == (1.0, 0.0)
    assert "200 are needed" in fitted.fit["load_note"]


def test_calls_that_do_not_depend_on_load_correct_nothing(scenario: Scenario, project: Project) -> None:
    flat = write_run(scenario.changed({"alpha": 1.0}), project, num_calls=6)
    fitted = fit_run(flat.pk)
    assert fitted.workload.alpha == 1.0
    assert fitted.fit["load_note"] == "no slowdown with load that can be told from noise"
    assert abs(fitted.fit["error"]["execution_s"]) < 0.001
