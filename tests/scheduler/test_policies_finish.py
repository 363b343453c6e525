"""Every policy runs to its last step under random durations, failures and void groups, and breaks no law."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.policies import REGISTRY
from scheduler.core.settings import Settings
from tests.scheduler.driver import World

pytestmark = pytest.mark.simulation


def make_settings(**changes: object) -> Settings:
    base: dict[str, object] = {
        "cells": 2,
        "concurrency_per_cell": 64,
        "groups_per_batch": 8,
        "executions_per_group": 8,
        "steps": 8,
        "burst_batches": 2,
        "burst_lead": 0,
        "max_staleness": 1,
        "max_void_groups": 8,
        "rho_min": 0.25,
        "supply_hold_s": 1.0,
        "min_rollout_cells": 0,
        "j_max": 5,
        "training_cells": 0,
        "eval_every_steps": 4,
        "eval_tasks": 16,
    }
    return Settings(**{**base, **changes})  # type: ignore[arg-type]


@st.composite
def some_settings(draw: st.DrawFn) -> Settings:
    num_batches, lead = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    size, executions, cells = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 3]))
    least = -(-num_batches * size * executions // cells)
    return make_settings(
        cells=cells,
        concurrency_per_cell=draw(st.integers(least, least + 8)),
        groups_per_batch=size,
        executions_per_group=executions,
        steps=draw(st.integers(1, 7)),
        burst_batches=num_batches,
        burst_lead=lead,
        max_staleness=num_batches + lead - 1 + draw(st.integers(0, 1)),
        max_void_groups=10**6,
        rho_min=draw(st.sampled_from([0.05, 0.25, 0.5, 1.0])),
        supply_hold_s=draw(st.sampled_from([0.0, 1.0, 5.0])),
        min_rollout_cells=draw(st.integers(0, min(2, cells))),
        eval_every_steps=draw(st.integers(0, 4)),
        eval_tasks=draw(st.integers(1, 6)),
    )


def due_versions(settings: Settings) -> list[int]:
    every, steps = settings.eval_every_steps, settings.steps
    return [v for v in range(steps + 1) if every and (v % every == 0 or v == steps)]


POLICIES = sorted(REGISTRY)


@pytest.mark.parametrize("policy_kind", POLICIES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some_settings(), st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))
def test_a_run_reaches_its_last_step_and_evaluates_every_due_version(
    policy_kind: str, chosen: Settings, seed: int, void_share: float
) -> None:
    if policy_kind.startswith("async") and chosen.cells == 1:
        return
    world = World(chosen, policy_kind, Random(seed), void_share=void_share)
    world.run()
    assert world.version == chosen.steps
    assert world.evaluated == due_versions(chosen)
    assert not world.cancelled


@pytest.mark.parametrize("policy_kind", POLICIES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some_settings(), st.integers(0, 10**6), st.integers(1, 6))
def test_a_run_survives_cells_that_die_and_come_back(
    policy_kind: str, chosen: Settings, seed: int, failures: int
) -> None:
    if policy_kind.startswith("async") and chosen.cells == 1:
        return
    world = World(chosen, policy_kind, Random(seed), failures=failures)
    world.run()
    assert world.version == chosen.steps
    assert world.evaluated == due_versions(chosen)


@pytest.mark.parametrize(
    ("policy_kind", "num_cells"),
    [(kind, cells) for kind in POLICIES for cells in (1, 2, 3) if cells > 1 or not kind.startswith("async")],
)
def test_quickstart_shape_runs_on_one_two_and_three_cells(policy_kind: str, num_cells: int) -> None:
    world = World(make_settings(cells=num_cells, concurrency_per_cell=128), policy_kind, Random(num_cells))
    world.run()
    assert world.version == 8
    assert world.evaluated == [0, 4, 8]


def test_the_same_seed_gives_the_same_decisions() -> None:
    logs = []
    for _ in range(2):
        world = World(make_settings(), "elastic", Random(7), void_share=0.2, failures=2)
        world.run()
        logs.append(world.log)
    assert logs[0] == logs[1]


def test_the_satellite_does_a_tenth_of_the_micro_steps_of_a_quickstart_run() -> None:
    world = World(make_settings(steps=20), "elastic", Random(1), log_sd=0.3)
    world.run()
    assert world.micro_steps_by[1] >= 0.1 * sum(world.micro_steps_by.values())
    assert world.num_switches["training"] >= 2


def test_void_groups_in_a_row_raise_the_alarm() -> None:
    world = World(make_settings(max_void_groups=8), "elastic", Random(1), void_share=1.0)
    world.run()
    assert world.alarm
    assert world.version == 0
