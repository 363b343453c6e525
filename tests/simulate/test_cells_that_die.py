"""Cells die and come back: the run ends, every law holds, and each micro-step is counted once, however often done."""

import pytest
from hypothesis import given, settings

from scheduler.core import snapshot as facts
from scheduler.simulator.core import Workload, World, simulate
from tests.simulate.strategies import POLICIES, Case, cases, make_settings
from tests.simulate.watched import Watch


@pytest.mark.parametrize("policy_kind", POLICIES)
def test_every_policy_ends_and_keeps_every_law(policy_kind: str) -> None:
    seen: list[int] = []

    @settings(max_examples=30, derandomize=True)
    @given(cases((policy_kind,), failing=True))
    def check(case: Case) -> None:
        watch = Watch(case)
        result = watch.run()
        tally = watch.world.tally
        assert tally.num_computed >= tally.micro_steps
        if not tally.num_failures:
            assert tally.num_computed == tally.micro_steps
            assert result.utilisation["lost"] == 0.0
        seen.append(tally.num_failures)

    check()
    assert sum(seen) > 0, "the property met failures"


@settings(max_examples=40)
@given(cases(failing=True))
def test_every_law_holds_after_every_event(case: Case) -> None:
    Watch(case, exhaustive=True).run()


def test_a_run_with_failures_takes_longer_and_redoes_work() -> None:
    chosen = make_settings(
        cells=4, concurrency_per_cell=16, groups_per_batch=6, executions_per_group=4, steps=24, burst_batches=2,
        max_staleness=1,
    )  # fmt: skip
    calm = simulate(chosen, Workload(train_cell_h=2.0), "elastic", 1)
    world = World(chosen, Workload(train_cell_h=2.0, cell_failures_per_h=0.3, repair_s=1_800.0), "elastic", 1)
    world.run()
    tally = world.tally
    stormy = world.result(1)
    assert tally.num_failures > 20
    assert tally.num_computed > tally.micro_steps
    assert stormy.hours > calm.hours
    assert stormy.utilisation["lost"] > 0.0
    lost_s = stormy.utilisation["lost"] * world.now_s * 4
    assert lost_s == pytest.approx(tally.num_failures * 1_800.0, rel=0.2), "each failure costs its repair"


def test_a_lost_core_resets_the_ledger_and_a_lost_satellite_returns_its_own_claims() -> None:
    chosen = make_settings(cells=3, groups_per_batch=4, executions_per_group=2, steps=1, concurrency_per_cell=8)
    for victim in (0, 1):
        world = World(chosen, Workload(train_cell_h=4.0, dp_efficiency=1.0, cell_failures_per_h=1e-9), "colocate", 1)
        world.run(until=lambda w: w.training.batch is not None and all(c.role == facts.TRAINING for c in w.cells))
        until_s = world.now_s + 1_000.0
        world.agenda.at(1_000.0, world.agenda.ask)
        world.run(until=lambda w, at=until_s: w.now_s >= at)
        batch = world.training.batch
        assert batch is not None
        claimed = [cell.num_uncounted for cell in world.cells]
        assert min(claimed) > 0
        total = batch.num_unclaimed + batch.num_claimed
        world.faults.fail(victim)
        # The others go on at once: an idle cell claims, a computing one keeps what it holds.
        kept = [0, 0, 0] if victim == 0 else [claimed[0], 0, claimed[2]]
        assert [cell.num_uncounted for cell in world.cells] == kept
        assert batch.num_claimed == sum(kept)
        assert batch.num_unclaimed + batch.num_claimed == total
        world.run()
        assert batch.num_counted == total
        assert world.tally.num_computed > total
