"""The simulator against an independent slow model in SimPy: the same durations give the same run, to a millionth."""

from dataclasses import replace
from math import exp, sqrt
from random import Random
from statistics import fmean, stdev

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.core.settings import Settings
from scheduler.simulator.core import Workload, World, simulate
from tests.simulate.slow_model import SlowModel
from tests.simulate.strategies import make_settings

POLICIES = ["colocate", "async-barrier", "async-streamed", "elastic"]
MANY_GROUPS = 400
NUM_SEEDS = 40


@st.composite
def simple_settings(draw: st.DrawFn, policy_kind: str) -> Settings:
    """Without evaluations; `elastic` on one cell, without overlap of bursts."""
    num_batches = draw(st.integers(1, 3))
    lead = 0 if policy_kind == "elastic" else draw(st.integers(0, 2))
    cells = 1 if policy_kind == "elastic" else draw(st.integers(2, 5))
    return make_settings(
        cells=cells,
        concurrency_per_cell=draw(st.integers(1, 12)),
        groups_per_batch=draw(st.integers(1, 4)),
        executions_per_group=draw(st.integers(1, 4)),
        steps=draw(st.integers(1, 8)),
        burst_batches=num_batches,
        burst_lead=lead,
        max_staleness=num_batches + lead - 1,
        rho_min=draw(st.sampled_from([0.1, 0.5, 1.0])),
        supply_hold_s=draw(st.sampled_from([0.0, 20.0, 2_000.0])),
        j_max=draw(st.integers(0, 6)),
        training_cells=draw(st.integers(0, cells - 1)),
    )


@st.composite
def simple_workloads(draw: st.DrawFn, policy_kind: str) -> Workload:
    """Executions that start together time out together; `colocate` then holds some of them in no defined order."""
    timeouts_s = [30_000.0] if policy_kind == "colocate" else [3_000.0, 7_000.0, 30_000.0]
    return Workload(
        min_votes=1,
        harness_timeout_s=draw(st.sampled_from(timeouts_s)),
        environment_share=draw(st.sampled_from([0.0, 0.3, 1.0])),
        alpha=draw(st.sampled_from([0.0, 0.5, 0.75, 1.0])),
        train_cell_h=draw(st.floats(0.05, 4.0)),
        micro_steps_per_group=draw(st.integers(1, 5)),
        dp_efficiency=draw(st.sampled_from([0.8, 0.97, 1.0])),
        commit_s=draw(st.floats(1.0, 300.0)),
        to_training_s=draw(st.floats(0.5, 300.0)),
        to_rollout_s=draw(st.floats(0.5, 300.0)),
        resume_stall_s=draw(st.sampled_from([0.0, 30.0, 700.0])),
        update_stall_s=draw(st.sampled_from([0.0, 30.0])),
    )


def log_normal_groups(seed: int, size: int) -> tuple[tuple[float, ...], ...]:
    """Distinct durations of about an hour: two ends never fall together."""
    random = Random(seed)
    return tuple(tuple(random.lognormvariate(8.0, 0.6) for _ in range(size)) for _ in range(MANY_GROUPS))


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("policy_kind", POLICIES)
def test_both_models_agree_on_the_same_durations(policy_kind: str) -> None:
    @settings(max_examples=40)
    @given(simple_settings(policy_kind), simple_workloads(policy_kind), st.integers(0, 10**6))
    def check(chosen: Settings, workload: Workload, seed: int) -> None:
        groups = log_normal_groups(seed, chosen.executions_per_group)
        slow = SlowModel(chosen, workload, policy_kind, lambda number: list(groups[number % MANY_GROUPS])).run()
        assume(not slow.has_tie)
        fast = simulate(chosen, workload, policy_kind, 1, recorded=groups)
        assert fast.hours * 3600.0 == near(slow.end_s)
        assert [step.finished_s for step in fast.step_rows] == [near(at) for at in slow.steps_s]
        assert [step.mean_staleness for step in fast.step_rows] == [near(d) for d in slow.staleness]
        assert fast.execution_h * 3600.0 == near(slow.execution_s)
        assert fast.timeout_share * fast.executions == near(slow.num_timeouts)

    check()


@pytest.mark.parametrize("policy_kind", POLICIES)
def test_mean_hours_agree_when_each_model_draws_for_itself(policy_kind: str) -> None:
    """Both draw log-normal durations, from streams of their own; the means differ by chance alone."""
    chosen = make_settings(
        cells=1 if policy_kind == "elastic" else 4, concurrency_per_cell=32, groups_per_batch=3,
        executions_per_group=4, steps=6, burst_batches=2, max_staleness=1,
    )  # fmt: skip
    workload = Workload(execution_h=1.0, log_sd_between=0.3, log_sd_within=0.4, cap_h=3.0, train_cell_h=1.5)

    def drawn(random: Random) -> list[float]:
        median_s = 3600.0 * exp(random.normalvariate(0.0, 0.3))
        return [min(median_s * exp(random.normalvariate(0.0, 0.4)), 3.0 * 3600.0) for _ in range(4)]

    slow, fast = [], []
    for seed in range(NUM_SEEDS):
        random = Random(f"slow {seed}")
        slow.append(SlowModel(chosen, workload, policy_kind, lambda _, random=random: drawn(random)).run().end_s)
        fast.append(simulate(chosen, workload, policy_kind, seed).hours * 3600.0)
    error_s = sqrt((stdev(slow) ** 2 + stdev(fast) ** 2) / NUM_SEEDS)
    assert error_s < 0.03 * fmean(slow), "the comparison is sharp enough to mean something"
    assert abs(fmean(slow) - fmean(fast)) < 4.0 * error_s


def test_the_comparison_notices_a_small_change() -> None:
    """A model with commits a second longer is not taken for the same."""
    chosen, workload = make_settings(cells=3, concurrency_per_cell=8, steps=4), Workload()
    groups = log_normal_groups(1, 2)
    slow = SlowModel(
        chosen, replace(workload, commit_s=workload.commit_s + 1.0), "colocate", lambda number: list(groups[number])
    ).run()
    world = World(chosen, workload, "colocate", 1, recorded=groups)
    world.run()
    assert world.now_s != near(slow.end_s)
