"""Cases that a person can work out: the simulator and the slow model both give the value of the formula.

s(x) is the time of an execution relative to full load, when its cell holds x of its cap:
    s(x) = e + (1 − e)·(alpha + (1 − alpha)·x)    e: the environment's share
µ is the time of a micro-step, m the micro-steps of a group, tau = B·m·µ + commit the time to train a batch on one cell.
"""

from math import exp, sqrt
from statistics import fmean, stdev

import pytest

from scheduler.core.settings import Settings
from scheduler.simulator.core import Workload, simulate
from tests.simulate.slow_model import SlowModel
from tests.simulate.strategies import make_settings

E, ALPHA = 0.3, 0.6
WORKLOAD = Workload(
    environment_share=E, alpha=ALPHA, train_cell_h=2.0, micro_steps_per_group=4, dp_efficiency=0.9, commit_s=100.0,
    to_training_s=40.0, to_rollout_s=15.0, move_stall_s=0.0, resume_stall_s=60.0, min_votes=1,
    harness_timeout_s=1e6,
)  # fmt: skip
D = 5_000.0


def s(load: float) -> float:
    return E + (1.0 - E) * (ALPHA + (1.0 - ALPHA) * load)


def tau(workload: Workload = WORKLOAD) -> float:
    """Forward-backward work of a whole batch on one cell, and the commit. j_max 5 is the unit of training work."""
    return 3600.0 * workload.train_cell_h + workload.commit_s


def both(
    settings: Settings, policy_kind: str, durations: list[tuple[float, ...]], workload: Workload = WORKLOAD
) -> tuple[float, list[float]]:
    """End and step times in seconds, after the two models were found to agree."""
    fast = simulate(settings, workload, policy_kind, 1, recorded=tuple(durations))
    slow = SlowModel(settings, workload, policy_kind, lambda number: list(durations[number % len(durations)])).run()
    steps_s = [step.finished_s for step in fast.step_rows]
    assert fast.hours * 3600.0 == pytest.approx(slow.end_s, rel=1e-6)
    assert steps_s == pytest.approx(slow.steps_s, rel=1e-6)
    return fast.hours * 3600.0, steps_s


def exactly(value: float) -> object:
    return pytest.approx(value, rel=1e-6)


def test_one_cell_colocate_with_equal_durations() -> None:
    """hours = steps·(D·s(B·N/c) + to_training + tau) + (steps − 1)·to_rollout"""
    settings = make_settings(cells=1, concurrency_per_cell=10, groups_per_batch=2, executions_per_group=3, steps=5)
    end_s, _ = both(settings, "colocate", [(D, D, D)])
    assert end_s == exactly(5 * (D * s(0.6) + 40.0 + tau()) + 4 * 15.0)


@pytest.mark.parametrize(("num_batches", "hold_s"), [(1, 0.0), (2, 0.0), (3, 900.0)])
def test_elastic_on_one_cell(num_batches: int, hold_s: float) -> None:
    """One cell may leave only when nothing is owed, so a burst is rolled out whole, then its S batches are trained:
    per burst D·s(S·B·N/c) + hold + to_training + S·tau, and to_rollout between bursts."""
    settings = make_settings(
        cells=1, concurrency_per_cell=24, groups_per_batch=2, executions_per_group=3, steps=4 * num_batches,
        burst_batches=num_batches, max_staleness=num_batches - 1, supply_hold_s=hold_s, rho_min=0.5,
    )  # fmt: skip
    end_s, steps_s = both(settings, "elastic", [(D, D, D)])
    rollout_s = D * s(num_batches * 6 / 24)
    burst_s = rollout_s + hold_s + 40.0 + num_batches * tau()
    assert end_s == exactly(4 * burst_s + 3 * 15.0)
    first = rollout_s + hold_s + 40.0
    assert steps_s[:num_batches] == [exactly(first + (n + 1) * tau()) for n in range(num_batches)]


def test_async_barrier_takes_turns_without_a_lead() -> None:
    """One cell trains, one rolls out, the next burst waits for the step: hours = steps·(D·s(B·N/c) + tau)"""
    settings = make_settings(cells=2, concurrency_per_cell=8, groups_per_batch=2, executions_per_group=3, steps=6)
    end_s, _ = both(settings, "async-barrier", [(D, D, D)])
    assert end_s == exactly(6 * (D * s(6 / 8) + tau()))


def test_async_barrier_overlaps_two_bursts_with_a_lead() -> None:
    """With alpha = 1 load does not matter, and with D >= tau pairs of bursts follow each other: step 2k ends at
    k·(D + tau) + tau."""
    workload = WORKLOAD.with_changes({"alpha": 1.0, "train_cell_h": 0.5})
    settings = make_settings(
        cells=2, concurrency_per_cell=12, groups_per_batch=2, executions_per_group=3, steps=8, burst_lead=1,
        max_staleness=1,
    )  # fmt: skip
    assert tau(workload) < D
    end_s, steps_s = both(settings, "async-barrier", [(D, D, D)], workload)
    assert end_s == exactly(4 * (D + tau(workload)) + tau(workload))
    assert steps_s[1::2] == [exactly(k * (D + tau(workload)) + tau(workload)) for k in (1, 2, 3, 4)]


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_fewer_executions_run_faster(alpha: float) -> None:
    """Processor sharing: between two ends n executions run, and d seconds at full load take d·s(n/c).
    T = sum over i of (d_i − d_(i−1))·s((n − i + 1)/c), d sorted."""
    workload = WORKLOAD.with_changes({"alpha": alpha})
    durations = [(3_000.0, 1_000.0), (7_000.0, 4_500.0), (4_600.0, 9_000.0)]
    settings = make_settings(cells=1, concurrency_per_cell=9, groups_per_batch=3, executions_per_group=2, steps=1)
    end_s, _ = both(settings, "elastic", durations, workload)
    ordered = sorted(seconds for group in durations for seconds in group)
    rollout_s, before = 0.0, 0.0
    for place, seconds in enumerate(ordered):
        load = (len(ordered) - place) / 9
        rollout_s += (seconds - before) * (E + (1.0 - E) * (alpha + (1.0 - alpha) * load))
        before = seconds
    assert end_s == exactly(rollout_s + 40.0 + tau(workload))


@pytest.mark.parametrize("num_executions", [12, 16, 20, 21])
def test_executions_beyond_the_cap_wait_for_a_place(num_executions: int) -> None:
    """n executions on c places run in waves: floor(n/c) full ones of D·s(1), then the rest at D·s(r/c)."""
    settings = make_settings(
        cells=2, concurrency_per_cell=8, groups_per_batch=1, executions_per_group=num_executions, steps=1
    )
    end_s, _ = both(settings, "async-barrier", [(D,) * num_executions])
    full, rest = divmod(num_executions, 8)
    assert full >= 1
    assert end_s == exactly(full * D * s(1.0) + (D * s(rest / 8) if rest else 0.0) + tau())


def test_batches_take_the_older_burst_first_though_the_newer_is_ready_earlier() -> None:
    """Burst 0 takes 10·D, burst 1, dispatched with it, a single D. Step 1 waits for burst 0, step 2 follows at once;
    executions of burst 1 began at version 0 and are trained at version 1. alpha = 1."""
    workload = WORKLOAD.with_changes({"alpha": 1.0})
    settings = make_settings(
        cells=2, concurrency_per_cell=8, groups_per_batch=2, executions_per_group=2, steps=2, burst_lead=1,
        max_staleness=1,
    )  # fmt: skip
    slow, quick = (10.0 * D, 10.0 * D), (D, D)
    for policy_kind in ("async-barrier", "async-streamed"):
        _, steps_s = both(settings, policy_kind, [slow, slow, quick, quick], workload)
        assert steps_s == [exactly(10.0 * D + tau(workload)), exactly(10.0 * D + 2.0 * tau(workload))]
    result = simulate(settings, workload, "async-streamed", 1, recorded=(slow, slow, quick, quick))
    assert [step.mean_staleness for step in result.step_rows] == [0.0, 1.0]


def test_groups_of_one_burst_are_batched_in_the_order_in_which_they_became_ready() -> None:
    """Streamed, one cell trains: batch 1 gets the groups of 1·D and 2·D, batch 2 those of 3·D and 9·D. alpha = 1,
    and half a batch takes less than D, so each half is trained when its group comes."""
    workload = WORKLOAD.with_changes({"alpha": 1.0, "train_cell_h": 1.0})
    settings = make_settings(
        cells=2, concurrency_per_cell=8, groups_per_batch=2, executions_per_group=2, steps=2, burst_batches=2,
        max_staleness=1,
    )  # fmt: skip
    half_s = 1_800.0
    assert half_s + 100.0 < D
    durations = [(9.0 * D, D), (2.0 * D, D), (3.0 * D, 3.0 * D), (D, D)]
    _, steps_s = both(settings, "async-streamed", durations, workload)
    assert steps_s == [exactly(2.0 * D + half_s + 100.0), exactly(9.0 * D + half_s + 100.0)]


def test_cells_in_one_batch_share_the_work_at_the_stated_efficiency() -> None:
    """A micro-step claimed as the n-th that is computed takes µ/eff^(n−1). Two cells, two micro-steps each: the
    first cell is done after µ + µ/eff, the second after 2·µ/eff."""
    workload = WORKLOAD.with_changes({"micro_steps_per_group": 2, "alpha": 1.0})
    settings = make_settings(cells=2, concurrency_per_cell=8, groups_per_batch=2, executions_per_group=2, steps=1)
    end_s, _ = both(settings, "colocate", [(D, D)], workload)
    micro_s = 7_200.0 / 4
    assert end_s == exactly(D + 40.0 + 2.0 * micro_s / 0.9 + 100.0)


def test_the_cap_on_trajectories_cuts_training_by_the_published_share() -> None:
    """E[min(J, j)] of a geometric J is (1 − q^j)/(1 − q): a cap of 5 cuts 1 − q^5 ... 25.2 % at q = 0.759."""
    settings = make_settings(cells=1, concurrency_per_cell=8, steps=1)
    capped, _ = both(settings, "elastic", [(D, D)])
    free, _ = both(make_settings(cells=1, concurrency_per_cell=8, steps=1, j_max=0), "elastic", [(D, D)])
    rest_s = D * s(4 / 8) + 40.0 + 100.0
    assert (capped - rest_s) / (free - rest_s) == exactly(1.0 - 0.759**5)
    assert 1.0 - (capped - rest_s) / (free - rest_s) == pytest.approx(0.252, abs=0.001)


def test_the_mean_of_drawn_durations_is_that_of_the_log_normal() -> None:
    """Without cap, tail or load: mean = median·exp((a² + b²)/2), within four standard errors over 40 seeds."""
    workload = Workload(
        execution_h=1.0, log_sd_between=0.3, log_sd_within=0.4, cap_h=1e6, harness_timeout_s=1e9, alpha=1.0,
        resume_stall_s=0.0, move_stall_s=0.0, train_cell_h=0.1,
    )  # fmt: skip
    settings = make_settings(cells=2, concurrency_per_cell=64, groups_per_batch=8, executions_per_group=4, steps=4)
    hours = [simulate(settings, workload, "async-barrier", seed).execution_h for seed in range(40)]
    error = stdev(hours) / sqrt(len(hours))
    assert error < 0.02
    assert abs(fmean(hours) - exp((0.3**2 + 0.4**2) / 2)) < 4.0 * error
