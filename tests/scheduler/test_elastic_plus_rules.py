"""What elastic+ does otherwise than elastic: one group is enough, a few start ahead, stragglers are carried."""

from random import Random

import pytest

from scheduler.core.bursts import in_time
from scheduler.core.decide import decide
from scheduler.core.decisions import Decision, Kind
from scheduler.core.policies import policy_of
from scheduler.core.policies.elastic_plus import carries, forecast
from scheduler.core.snapshot import TRAINING, Batch, Snapshot, Work
from scheduler.simulator.core import simulate
from scheduler.simulator.scenarios import load
from tests.scheduler.driver import World
from tests.scheduler.snapshots import burst, cell, settings, snapshot_with

BIG = settings(
    cells=2, concurrency_per_cell=400, groups_per_batch=18, executions_per_group=4, burst_batches=4, max_staleness=3,
    eval_every_steps=0,
)  # fmt: skip
#: A run whose training takes longer than its slowest group, and one whose slowest groups take ten times the others'.
TRAINING_BOUND = Work(1.0, 1.0, step_s=100.0, group_s=tuple(100.0 + n for n in range(33)))
STRAGGLING = Work(1.0, 1.0, step_s=10.0, group_s=(*(100.0 + n for n in range(30)), 500.0, 800.0, 1000.0))


def last_batch(num_groups: int) -> Batch:
    """Batch 8, of burst 0 at version 7, open with so many groups."""
    return Batch(
        number=8, burst=0, version=7, sealed=False, num_groups=num_groups, num_unclaimed=5, num_uncounted=1,
        num_counted=9,
    )  # fmt: skip


def decisions(snapshot: Snapshot, kind: Kind) -> list[Decision]:
    return [d for d in decide(snapshot, policy_of("elastic+"), snapshot.taken_at_s) if d.kind == kind]


def test_the_core_leaves_for_the_first_ready_group_without_holding() -> None:
    seen = snapshot_with(10, burst(num_ready=1, num_unfinished=10), settings=settings(rho_min=1.0, supply_hold_s=60.0))
    assert decisions(seen, Kind.LEAVE_ROLLOUT)[0].accepted


def test_a_few_groups_start_ahead_while_the_last_batch_is_trained() -> None:
    last = burst(num_admitted=17, num_unfinished=1, version=4, max_staleness=3, groups_per_batch=18)
    seen = snapshot_with(4, last, settings=BIG, version=7, work=TRAINING_BOUND, batch=last_batch(17))
    dispatched = decisions(seen, Kind.DISPATCH_BURST)[0]
    assert (dispatched.reason_code, dispatched.params.num_groups) == ("ahead", 7)
    [waits] = decisions(seen, Kind.SEAL_BATCH)
    assert waits.reason == "batch 8 stays open: 17 of 18 groups, 8 more unfinished"


def test_nothing_starts_ahead_while_most_of_the_last_batch_is_unfinished() -> None:
    last = burst(num_admitted=8, num_unfinished=10, version=4, max_staleness=3, groups_per_batch=18)
    seen = snapshot_with(40, last, settings=BIG, version=7, work=TRAINING_BOUND, batch=last_batch(8))
    assert not decisions(seen, Kind.DISPATCH_BURST)[0].accepted


def test_bursts_go_out_over_carried_stragglers_when_these_hold_the_run_up() -> None:
    stragglers = burst(num_unfinished=9, version=4, max_staleness=3, groups_per_batch=18)
    seen = snapshot_with(36, stragglers, settings=BIG, version=7, work=STRAGGLING)
    dispatched = decisions(seen, Kind.DISPATCH_BURST)[0]
    assert (dispatched.reason_code, dispatched.params.num_groups) == ("stragglers_carried", 3 * 18)


def test_a_batch_keeps_places_for_groups_that_no_later_batch_may_take() -> None:
    old = burst(number=0, num_unfinished=5, version=4, max_staleness=3, groups_per_batch=18)
    fresh = burst(number=1, num_ready=18, num_unfinished=36, version=7, max_staleness=3, groups_per_batch=18)
    seen = snapshot_with(
        41, old, fresh, settings=BIG, version=7, batch=last_batch(0), cells=(cell(0, TRAINING), cell(1))
    )
    admitted = decisions(seen, Kind.ADMIT_GROUP)
    assert len(admitted) == 13
    assert not decisions(seen, Kind.SEAL_BATCH)[0].accepted


@pytest.mark.parametrize(("num_owed", "num_taken"), [(2, 0), (1, 1)])
def test_a_batch_leaves_room_for_groups_that_the_next_batches_must_take(num_owed: int, num_taken: int) -> None:
    """One place per batch. Those of burst 0 must be in batch 2 or 3, so with two of them there is none to give away."""
    old = burst(number=0, num_unfinished=num_owed, version=0, max_staleness=2, groups_per_batch=1)
    fresh = burst(number=1, num_ready=3, version=1, max_staleness=2, groups_per_batch=1)
    taken = in_time(snapshot_with(8, old, fresh, version=1), 1, 1)
    assert taken == list(fresh.ready[:num_taken])


@pytest.mark.parametrize(("num_batches", "lead"), [(1, 2), (2, 2), (3, 3), (2, 3)])
def test_overlapping_bursts_never_leave_a_group_too_old_for_every_batch(num_batches: int, lead: int) -> None:
    scenario = load("baseline-set").changed(
        {
            "burst_batches": num_batches, "burst_lead": lead, "max_staleness": num_batches + lead - 1,
            "groups_per_batch": 2, "executions_per_group": 2, "concurrency_per_cell": 16, "steps": 12,
            "log_sd_between": 1.0, "log_sd_within": 1.0,
        }
    )  # fmt: skip
    for seed in range(1, 9):
        result = simulate(scenario.settings, scenario.workload, "elastic+", seed)
        assert result.groups["consumed"] == 12 * 2
        assert result.max_staleness <= scenario.settings.max_staleness


def test_without_history_bursts_are_strict() -> None:
    assert forecast(Work(), 4, 18, 0) is None
    assert not carries(Work(), 4, 18)
    dispatched = decisions(snapshot_with(0, settings=BIG), Kind.DISPATCH_BURST)[0]
    assert dispatched.params.num_groups == 72


@pytest.mark.parametrize("log_sd", [0.2, 0.8, 1.4])
def test_runs_with_and_without_stragglers_reach_their_end_with_whole_batches(log_sd: float) -> None:
    world = World(
        settings(
            cells=3, concurrency_per_cell=64, groups_per_batch=6, executions_per_group=4, steps=24, burst_batches=4,
            max_staleness=3, eval_every_steps=0,
        ),
        "elastic+",
        Random(3),
        log_sd=log_sd,
    )  # fmt: skip
    world.run()
    assert world.version == 24
    assert sum(group.times_consumed for group in world.groups.values()) == 24 * 6
