"""Bursts, void groups, launches, opening, filling and sealing (docs/algorithms.md §9, §11)."""

from dataclasses import replace

from scheduler.core.counters import Counters
from scheduler.core.decisions import DispatchBurst, Kind, Launch, RaiseAlarm
from scheduler.core.snapshot import SWITCHING, TRAINING, Batch, ReadyGroup
from tests.scheduler.snapshots import NOW_S, burst, cell, decided, none, only, settings, snapshot_with

FRESH = {"counters": Counters(0, 0, 0), "next_burst": 0}


def open_batch(num_groups: int) -> Batch:
    return Batch(1, 0, 0, False, num_groups, 0, 0, num_groups)


def test_a_burst_is_s_times_b_groups() -> None:
    decision = only(snapshot_with(0, **FRESH), Kind.DISPATCH_BURST)
    assert decision.accepted
    assert decision.params == DispatchBurst(
        number=0, version=0, num_groups=16, groups_per_batch=8, executions_per_group=8, max_staleness=1
    )
    assert "W rises to 128" in decision.reason


def test_the_next_burst_waits_until_all_but_the_lead_is_consumed_or_void() -> None:
    assert only(snapshot_with(0, burst(num_ready=1)), Kind.DISPATCH_BURST).reason_code == "burst_in_progress"
    leading = settings(burst_batches=1, burst_lead=1)
    assert only(snapshot_with(0, burst(num_ready=8), settings=leading), Kind.DISPATCH_BURST).accepted
    assert not only(snapshot_with(0, burst(num_ready=9), settings=leading), Kind.DISPATCH_BURST).accepted


def test_the_last_burst_holds_only_the_batches_that_are_left() -> None:
    assert only(snapshot_with(0, version=19, evaluated=(0,)), Kind.DISPATCH_BURST).params.num_groups == 8
    nearly = snapshot_with(0, burst(num_ready=8), version=19, settings=settings(burst_batches=1, burst_lead=1))
    assert only(nearly, Kind.DISPATCH_BURST).reason_code == "last_steps"


def test_burst_and_lead_are_cut_to_the_staleness_bound() -> None:
    tight = settings(burst_batches=4, burst_lead=2, max_staleness=2)
    assert only(snapshot_with(0, settings=tight), Kind.DISPATCH_BURST).params.num_groups == 8


def test_void_groups_in_a_row_hold_dispatch_with_an_alarm() -> None:
    decision = only(snapshot_with(0, num_void_in_a_row=8), Kind.RAISE_ALARM)
    assert decision.params == RaiseAlarm("void_groups")
    assert "8 groups in a row were void (limit 8)" in decision.reason
    assert none(snapshot_with(0, num_void_in_a_row=8), Kind.DISPATCH_BURST)


def test_held_dispatch_stays_held() -> None:
    assert only(snapshot_with(0, dispatch_held=True), Kind.DISPATCH_BURST).reason_code == "held"


def test_launches_fill_the_places_of_the_confirmed_rollout_cells() -> None:
    snapshot = snapshot_with(0, burst(num_unfinished=16), counters=Counters(128, 60, 10, queued=4))
    decision = only(snapshot, Kind.LAUNCH)
    assert decision.params == Launch(64)
    assert decision.reason == "launches 64: 54 of 2 x 64 places were taken, 64 waited"
    one = replace(snapshot, cells=(cell(0), cell(1, SWITCHING, desired_role="rollout")))
    assert only(one, Kind.LAUNCH).params == Launch(10)


def test_launches_wait_until_every_rollout_cell_serves_the_bursts_version() -> None:
    snapshot = snapshot_with(
        0,
        burst(num_unfinished=16, version=2),
        counters=Counters(256, 128, 128),
        version=2,
        cells=(cell(0, weight_version=2), cell(1, weight_version=1)),
    )
    decision = only(snapshot, Kind.LAUNCH)
    assert (decision.accepted, decision.reason_code) == (False, "weights_behind")


def test_a_batch_takes_the_groups_that_were_ready_first_and_is_sealed_when_full() -> None:
    ready = tuple(ReadyGroup(n, NOW_S - 5) for n in (7, 3, 9))
    snapshot = snapshot_with(
        0, burst(num_admitted=6, num_unfinished=2, ready=ready), cells=(cell(0, TRAINING), cell(1)), batch=open_batch(6)
    )
    assert [d.params.group for d in decided(snapshot) if d.kind == Kind.ADMIT_GROUP] == [7, 3]
    seal = only(snapshot, Kind.SEAL_BATCH)
    assert (seal.accepted, seal.reason_code) == (True, "full")


def test_a_batch_is_sealed_short_when_its_burst_has_none_unfinished() -> None:
    snapshot = snapshot_with(0, burst(num_admitted=5), cells=(cell(0, TRAINING), cell(1)), batch=open_batch(5))
    seal = only(snapshot, Kind.SEAL_BATCH)
    assert (seal.accepted, seal.reason_code) == (True, "burst_exhausted")


def test_a_batch_stays_open_while_groups_of_its_burst_are_unfinished() -> None:
    snapshot = snapshot_with(9, burst(num_admitted=5, num_unfinished=1), batch=open_batch(5))
    assert only(snapshot, Kind.SEAL_BATCH).reason == "batch 1 stays open: 5 of 8 groups, 1 more unfinished"


def test_a_batch_takes_groups_of_one_burst_only() -> None:
    newer = replace(burst(num_ready=8), number=1)
    snapshot = snapshot_with(
        9, burst(num_admitted=5, num_unfinished=1), newer, cells=(cell(0, TRAINING), cell(1)), batch=open_batch(5)
    )
    assert none(snapshot, Kind.ADMIT_GROUP)


def test_the_core_opens_a_batch_in_the_evaluation_that_sends_it_to_training() -> None:
    kinds = [d.kind for d in decided(snapshot_with(0, burst(num_ready=2, num_unfinished=3))) if d.accepted]
    assert kinds == [Kind.LEAVE_ROLLOUT, Kind.LEAVE_ROLLOUT, Kind.OPEN_BATCH, Kind.ADMIT_GROUP, Kind.ADMIT_GROUP]


def test_nothing_new_begins_while_the_run_is_paused() -> None:
    paused = snapshot_with(0, burst(num_ready=8), paused=True, counters=Counters(128, 60, 60))
    assert not [d for d in decided(paused) if d.accepted]
    filling = snapshot_with(0, burst(num_ready=1, num_admitted=7), paused=True, batch=open_batch(7))
    assert [d.kind for d in decided(filling) if d.accepted] == [Kind.ADMIT_GROUP, Kind.SEAL_BATCH]


def test_the_run_finishes_after_its_last_step_and_last_evaluation() -> None:
    assert [d.kind for d in decided(snapshot_with(0, version=20, evaluated=(0, 20)))] == [Kind.FINISH_RUN]
    assert none(snapshot_with(0, version=20, evaluated=(0,)), Kind.FINISH_RUN)
