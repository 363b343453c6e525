"""A world resumed at a moment of a simulated run ends as the run does, and keeps the laws under other settings."""

from __future__ import annotations

import pytest

from scheduler.core.policies import REGISTRY
from scheduler.core.snapshot import Override
from scheduler.simulator.core import Result
from scheduler.simulator.core.resume import Moment, resume
from scheduler.simulator.scenarios import Scenario, load
from tests.whatif.moments import Watched, moment_of

SMALL = {
    "cells": 4, "concurrency_per_cell": 48, "groups_per_batch": 6, "executions_per_group": 8, "steps": 12,
    "evaluation_s": 60.0, "no_work_share": 0.02, "unresolved_share": 0.02, "harness_timeout_s": 15_000.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load("baseline-set").changed(SMALL)


def run_whole(scenario: Scenario, policy: str, seed: int = 3) -> Result:
    world = Watched(scenario.settings, scenario.workload, policy, seed)
    world.run()
    return world.result(seed)


def stopped(scenario: Scenario, policy: str, at_s: float, seed: int = 3) -> Moment:
    world = Watched(scenario.settings, scenario.workload, policy, seed)
    # Not amid events of one instant.
    world.run(until=lambda w: w.now_s >= at_s and not (w.agenda.heap and w.agenda.heap[0][0] <= w.now_s))
    assert not world.done
    return moment_of(world)


@pytest.mark.parametrize("policy", sorted(REGISTRY))
def test_a_run_that_is_broken_off_and_resumed_ends_as_without_the_break(scenario: Scenario, policy: str) -> None:
    whole = run_whole(scenario, policy)
    assert whole.timeout_share > 0
    for share in (0.07, 0.21, 0.33, 0.48, 0.6, 0.74, 0.9):
        moment = stopped(scenario, policy, share * whole.hours * 3600)
        assert 0 < moment.snapshot.version < 12 or share < 0.3
        resumed = resume(moment, scenario.settings, scenario.workload, policy, 3)
        resumed.run()
        rest = resumed.result(3)
        assert moment.snapshot.taken_at_s / 3600 + rest.hours == pytest.approx(whole.hours, rel=1e-9)
        later = [step for step in whole.step_rows if step.number > moment.snapshot.version]
        assert [step.number for step in rest.step_rows] == [step.number for step in later]
        assert [step.finished_s for step in rest.step_rows] == pytest.approx([step.finished_s for step in later])
        assert [step.mean_staleness for step in rest.step_rows] == pytest.approx([s.mean_staleness for s in later])


@pytest.mark.parametrize(
    "changes",
    [
        {"cells": 2, "concurrency_per_cell": 96},
        {"cells": 8, "concurrency_per_cell": 48},
        {"cells": 3, "concurrency_per_cell": 64},
        {"rho_min": 1.0, "supply_hold_s": 300.0},
        {"burst_batches": 1},
        {"burst_batches": 2, "burst_lead": 2},
        {"j_max": 1},
        {"max_staleness": 0, "burst_batches": 1},
        {"min_rollout_cells": 0},
    ],
)
@pytest.mark.parametrize("policy", ["elastic", "elastic+", "colocate", "async-streamed"])
def test_other_settings_from_a_moment_on_keep_the_laws(
    scenario: Scenario, policy: str, changes: dict[str, float]
) -> None:
    moment = stopped(scenario, "elastic", 5.1 * 3600)
    other = scenario.changed(changes)
    lowest = []
    world = resume(
        moment, other.settings, other.workload, policy, 3,
        on_decisions=lambda snapshot, _: lowest.append(snapshot.counters.waterlevel),
    )  # fmt: skip
    world.run()
    result = world.result(3)
    assert world.version == other.settings.steps == moment.snapshot.version + result.steps
    assert min(lowest) >= 0
    assert result.max_staleness <= max(scenario.settings.max_staleness, other.settings.max_staleness)
    shares = result.utilisation
    assert shares["rollout"] + shares["training"] + shares["switching"] + shares["lost"] == pytest.approx(1.0)
    assert world.rollout.waterlevel == world.rollout.pool.num_running + len(world.rollout.waiting) + len(
        [1 for _, _, action, _ in world.agenda.heap if action.__name__ == "finish"]
    )
    assert all(step.num_groups == other.settings.groups_per_batch for step in result.step_rows)


def test_a_cell_that_is_pinned_to_rollout_never_leaves_it_after_the_moment(scenario: Scenario) -> None:
    moment = stopped(scenario, "elastic", 2.0 * 3600)
    pin = Override(id=1, kind="pin", expires_at_s=float("inf"), cell_index=2, role="rollout")
    seen: set[tuple[str, str]] = set()
    world = resume(
        moment, scenario.settings, scenario.workload, "elastic", 3, overrides=(pin,),
        on_decisions=lambda snapshot, _: seen.add((snapshot.cells[2].desired_role, snapshot.cells[1].desired_role)),
    )  # fmt: skip
    assert moment.snapshot.cells[2].desired_role == "rollout"
    world.run(until=lambda w: w.version >= 6)
    assert {mine for mine, _ in seen} == {"rollout"}
    assert {other for _, other in seen} == {"rollout", "training"}
