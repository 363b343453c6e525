"""Fit, answer and a replayed run mean the same by "per step", and drawing groups anew does not make a run longer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random
from statistics import fmean

import pytest
from django.db.models import F

from agents.models import Project, Run
from scheduler.simulator.core import simulate
from scheduler.simulator.scenarios import Scenario, load
from scheduler.simulator.studies.fit import fit, fit_run
from scheduler.simulator.studies.recorded import read
from scheduler.simulator.studies.table import fit_lines
from scheduler.simulator.whatif.answer import POOR_FIT, against_recorded, answers, recommendation
from scheduler.simulator.whatif.inputs import Inputs
from scheduler.simulator.whatif.points import drawn_near, simulate_point
from scheduler.simulator.whatif.question import Question
from scheduler.simulator.whatif.reading import read_inputs
from tests.whatif.simulated_rows import write_run
from tests.whatif.test_fitting_a_recording import CHANGES

WHOLE = Question(span="whole", hours=0.0, seeds=4, present={"policy_kind": "elastic"}, values={"j_max": (1,)})


@pytest.fixture
def scenario() -> Scenario:
    return load("baseline-set").changed(CHANGES)


@pytest.fixture
def run(scenario: Scenario, project: Project) -> Run:
    return write_run(scenario, project)


def ends_later(run: Run, seconds: float) -> Run:
    """As after a last evaluation that took so long."""
    Run.objects.filter(pk=run.pk).update(finished_at=F("finished_at") + timedelta(seconds=seconds))
    run.refresh_from_db()
    return run


def answered(inputs: Inputs) -> list[dict[str, object]]:
    results = [simulate_point(inputs, WHOLE, {}, seed, None) for seed in range(1, WHOLE.seeds + 1)]
    return [{"number": 0, "changes": {}, "results": results}]


def test_of_an_ended_run_every_time_per_step_is_that_of_the_whole_run(run: Run) -> None:
    ends_later(run, 600.0)
    found = fit_run(run.pk)
    assert run.finished_at is not None
    assert run.started_at is not None
    hours = (run.finished_at - run.started_at).total_seconds() / 3600
    replayed = simulate(found.settings, found.workload, "elastic", 0, recorded=found.recorded)
    assert found.fit["whole"] is True
    assert found.fit["recorded"]["hours_per_step"] == pytest.approx(hours / 6)
    assert found.fit["simulated"]["hours_per_step"] == pytest.approx(replayed.hours_per_step)
    for figures in (found.fit["recorded"], found.fit["simulated"]):
        parts = figures["hours_to_last_step"] + figures["hours_after_last_step"]
        assert figures["hours_per_step"] == pytest.approx(parts / 6)
    assert found.fit["recorded"]["hours_after_last_step"] == pytest.approx(600 / 3600, abs=0.02)
    replaced = replace(found, fit=found.fit | {"mean_load": 0.5})
    lines = list(fit_lines(replaced))
    assert any(line.startswith("  per step: ") and line.endswith(", the whole run by its steps") for line in lines)
    assert any(line.startswith("  after the last step (last evaluation): recorded 0.17 h") for line in lines)


def test_of_a_run_that_goes_on_both_count_up_to_the_last_step(scenario: Scenario, project: Project) -> None:
    running = write_run(scenario, project, until_s=1.2 * 3600)
    recording = read(running.pk)
    assert recording is not None
    found = fit(recording)
    num_steps = len(recording.steps)
    assert 0 < num_steps < 6
    replayed = simulate(found.settings, found.workload, "elastic", 0, recorded=found.recorded)
    last = replayed.step_rows[num_steps - 1]
    assert found.fit["whole"] is False
    assert found.fit["recorded"]["hours_per_step"] == pytest.approx(recording.steps[-1].stepped_s / num_steps / 3600)
    assert found.fit["simulated"]["hours_per_step"] == pytest.approx(last.finished_s / num_steps / 3600)


def test_the_warning_looks_at_the_answer_itself_and_not_at_a_replay(run: Run) -> None:
    inputs, figures = read_inputs(run, WHOLE)
    points = answers(answered(inputs))
    against = against_recorded(points, figures)
    assert against is not None
    assert points[0].hours is not None
    assert against.answered == pytest.approx(points[0].hours.mean / 6)
    assert against.recorded == figures["recorded"]["hours_per_step"]
    assert abs(against.error) < POOR_FIT
    slow = [{**point, "results": [{**r, "hours": 1.3 * r["hours"]} for r in point["results"]]}  # type: ignore[attr-defined]
            for point in answered(inputs)]  # fmt: skip
    other = {**slow[0], "number": 1, "changes": {"j_max": 1}}
    assert abs(figures["error"]["hours_per_step"]) < POOR_FIT
    assert any("slower than it was" in line for line in recommendation(answers([*slow, other]), figures))


def test_a_whole_run_asked_while_it_goes_on_is_measured_up_to_the_last_recorded_step(
    scenario: Scenario, project: Project
) -> None:
    running = write_run(scenario, project, until_s=1.2 * 3600)
    inputs, figures = read_inputs(running, WHOLE)
    points = answers(answered(inputs))
    against = against_recorded(points, figures)
    assert against is not None
    assert points[0].hours_then is not None
    assert against.answered == pytest.approx(points[0].hours_then / figures["steps"])
    assert points[0].hours is not None
    assert points[0].hours_then < points[0].hours.mean


def test_whole_bursts_are_drawn_near_their_place_and_by_the_random_source_alone() -> None:
    pool = list(range(42))  # ten bursts of four, and two groups of one that has just begun
    found = drawn_near(pool, 80, 4, Random(1))
    assert found == drawn_near(pool, 80, 4, Random(1))
    assert found != drawn_near(pool, 80, 4, Random(2))
    bursts = [found[place : place + 4] for place in range(0, 80, 4)]
    assert all(burst == list(range(burst[0], burst[0] + 4)) and burst[0] % 4 == 0 for burst in bursts)
    assert all(abs(burst[0] // 4 - place) <= 1 for place, burst in enumerate(bursts[:10]))
    beyond = {burst[0] for burst in bursts[10:]}
    assert max(beyond) - min(beyond) > 12


def test_groups_of_few_bursts_are_drawn_one_by_one_near_their_place() -> None:
    pool = list(range(40))
    found = drawn_near(pool, 60, 20, Random(1))
    assert all(abs(value - place) <= 4 for place, value in enumerate(found[:40]))
    assert set(found) <= set(pool)
    assert max(found[40:]) - min(found[40:]) > 9


def test_drawing_anew_does_not_make_a_run_longer_whose_executions_drift() -> None:
    short = {**CHANGES, "steps": 12, "train_cell_h": 0.02, "commit_s": 1.0}  # so that executions make the time
    scenario = load("baseline-set").changed(short)
    settings, workload = scenario.settings, scenario.workload
    random = Random(3)
    groups = tuple(
        tuple(200.0 * (1 + 4 * place / 48) * random.uniform(0.8, 1.2) for _ in range(6)) for place in range(48)
    )
    replayed = simulate(settings, workload, "elastic", 0, recorded=groups).hours
    inputs = Inputs("elastic", settings, workload, groups, num_steps=12)
    near = fmean(simulate_point(inputs, WHOLE, {}, seed, None)["hours"] for seed in range(1, 7))
    mixed = []
    for seed in range(1, 7):
        chance = Random(f"mixed {seed}")
        drawn = tuple(chance.choices(groups, k=len(groups)))
        mixed.append(simulate(settings, workload, "elastic", seed, recorded=drawn).hours)
    assert near == pytest.approx(replayed, rel=0.06)
    assert fmean(mixed) > 1.1 * replayed
