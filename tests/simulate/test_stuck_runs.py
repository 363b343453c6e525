"""A simulated run that cannot go on says where it stands and what was refused, so that a person can mend it."""

import pytest

from scheduler.core.snapshot import Override
from scheduler.simulator.core import Stuck, Workload, World, simulate
from scheduler.simulator.scenarios import BadScenario, load
from tests.simulate.strategies import make_settings


def test_a_fixed_split_of_one_cell_names_the_missing_rollout_cell() -> None:
    with pytest.raises(Stuck) as stuck:
        simulate(make_settings(cells=1), Workload(), "async-streamed", 1)
    assert "version 0 of 4" in str(stuck.value)
    assert "no launch: 0 of 0 x 8 places are taken, 4 executions wait" in str(stuck.value)


def test_groups_that_are_all_void_name_the_limit_and_the_outcomes() -> None:
    with pytest.raises(Stuck) as stuck:
        simulate(make_settings(max_void_groups=5), Workload(unresolved_share=1.0), "elastic", 1)
    text = str(stuck.value)
    assert "(limit 5)" in text
    assert "min_votes 2 of 2 executions, unresolved_share 1 of them" in text


def test_dispatch_that_a_person_holds_is_named() -> None:
    hold = Override(7, "hold_dispatch", expires_at_s=float("inf"))
    with pytest.raises(Stuck, match="override 7 holds dispatch"):
        simulate(make_settings(), Workload(), "elastic", 1, overrides=(hold,))


def test_a_pinned_core_is_named() -> None:
    pin = Override(3, "pin", expires_at_s=float("inf"), cell_index=0, role="rollout")
    with pytest.raises(Stuck, match="override 3"):
        simulate(make_settings(), Workload(), "elastic", 1, overrides=(pin,))


def test_an_order_that_ends_lets_the_run_go_on() -> None:
    hold = Override(7, "hold_dispatch", expires_at_s=3_600.0)
    world = World(make_settings(), Workload(), "elastic", 1, overrides=(hold,))
    world.run()
    assert world.version == 4
    assert world.tally.steps[0].finished_s > 3_600.0


@pytest.mark.parametrize(("failures", "repair_s"), [(1000.0, 100_000.0), (1.0, 1e7), (100.0, 600.0)])
def test_cells_that_fail_too_often_end_the_run_with_the_reason(failures: float, repair_s: float) -> None:
    workload = Workload(cell_failures_per_h=failures, repair_s=repair_s)
    messages = []
    for _ in range(2):
        with pytest.raises(Stuck) as stuck:
            simulate(make_settings(), workload, "elastic", 1)
        messages.append(str(stuck.value))
    assert "of 4 after" in messages[0]
    assert "cells fail too often: more than 10,000 times per cell since the last optimizer step" in messages[0]
    assert f"cell_failures_per_h is {failures:g}, repair_s {repair_s:g}" in messages[0]
    assert messages[0] == messages[1]


def test_failures_are_counted_from_one_step_to_the_next() -> None:
    settings = make_settings()
    world = World(settings, Workload(cell_failures_per_h=0.5, repair_s=60.0), "elastic", 1)
    world.run()
    assert world.version == 4
    assert world.tally.num_failures > 0
    assert world.tally.num_failures_since_step < world.tally.num_failures


def test_a_scenario_in_which_every_group_would_be_void_is_refused() -> None:
    with pytest.raises(BadScenario, match="min_votes 2 exceeds executions_per_group 1: no group would ever be usable"):
        load("baseline-set").changed({"executions_per_group": 1})
