"""A burst waits for batches, not only for groups: small remainders of two bursts are two optimizer steps."""

from dataclasses import replace

from hypothesis import given, settings

from scheduler.core.bursts import outstanding_batches
from scheduler.core.decisions import Decision, Kind
from scheduler.core.snapshot import Snapshot
from scheduler.simulator.core import Workload, World
from tests.scheduler.snapshots import burst, decided, only, snapshot_with
from tests.scheduler.snapshots import settings as make_settings
from tests.simulate.strategies import Case, cases

LEADING = make_settings(burst_batches=1, burst_lead=1, max_staleness=1)


def test_two_bursts_with_one_group_each_are_two_batches_and_no_further_burst_follows() -> None:
    older, newer = burst(num_unfinished=1), replace(burst(num_unfinished=1), number=1)
    snapshot = snapshot_with(16, older, newer, settings=LEADING, next_burst=2)
    decision = only(snapshot, Kind.DISPATCH_BURST)
    assert (decision.accepted, decision.reason_code) == (False, "burst_in_progress")
    assert "2 groups, 2 batches, are neither consumed nor void" in decision.reason


def test_one_burst_with_as_many_groups_is_one_batch_and_the_next_follows() -> None:
    snapshot = snapshot_with(16, burst(num_unfinished=2), settings=LEADING)
    assert only(snapshot, Kind.DISPATCH_BURST).accepted


def test_a_third_burst_would_have_been_too_old_for_its_batch() -> None:
    """Had it been dispatched at version 0, the two batches before it would make it two versions old, bound one."""
    third = replace(burst(num_ready=8), number=2)
    snapshot = snapshot_with(0, third, settings=LEADING, version=2, next_burst=3, evaluated=(0, 2))
    assert not any(d.kind is Kind.OPEN_BATCH and d.accepted for d in decided(snapshot))


@settings(max_examples=60)
@given(cases())
def test_voids_that_leave_remainders_never_bring_more_batches_under_way_than_burst_and_lead(case: Case) -> None:
    workload = replace(case.workload, unresolved_share=0.5, no_work_share=0.0, min_votes=1)
    chosen = replace(case.settings, burst_lead=1, max_staleness=case.settings.burst_batches)
    most: list[int] = []

    def watch(snapshot: Snapshot, decisions: list[Decision]) -> None:
        most.append(outstanding_batches(snapshot))

    world = World(chosen, workload, case.policy_kind, case.seed, on_decisions=watch)
    world.run()
    assert max(most) <= chosen.burst_batches + chosen.burst_lead
    assert world.version == chosen.steps


def test_a_run_with_many_voids_and_a_lead_reaches_its_last_step() -> None:
    chosen = make_settings(
        burst_batches=1, burst_lead=1, max_staleness=1, groups_per_batch=2, executions_per_group=2, steps=40,
        max_void_groups=10**6, eval_every_steps=0,
    )  # fmt: skip
    for seed in range(20):
        world = World(chosen, Workload(unresolved_share=0.6, min_votes=2), "elastic", seed)
        world.run()
        assert world.version == 40
        assert world.tally.outcomes["void"] > 40
