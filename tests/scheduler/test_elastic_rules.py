"""The elastic rules of docs/algorithms.md §9, one by one, with the numbers their reasons must hold."""

import pytest

from scheduler.core.decisions import Kind
from scheduler.core.snapshot import LOST, ROLLOUT, SWITCHING, TRAINING, Batch, Work
from tests.scheduler.snapshots import NOW_S, burst, cell, decided, none, only, settings, snapshot_with


def batch(**changes: object) -> Batch:
    base: dict[str, object] = {
        "number": 1,
        "burst": 0,
        "version": 0,
        "sealed": False,
        "num_groups": 4,
        "num_unclaimed": 0,
        "num_uncounted": 0,
        "num_counted": 4,
    }
    return Batch(**{**base, **changes})  # type: ignore[arg-type]


def test_the_core_leaves_when_the_others_hold_what_is_owed_and_supply_held() -> None:
    decision = only(snapshot_with(64, burst(num_ready=2, num_unfinished=8)), Kind.LEAVE_ROLLOUT, 0)
    assert decision.accepted
    assert decision.reason == ("the core leaves rollout: 2 groups ready, 2 needed, for 10.0 s; 1 x 64 >= W 64")


def test_the_core_stays_while_the_others_cannot_hold_what_is_owed() -> None:
    decision = only(snapshot_with(65, burst(num_ready=2, num_unfinished=9)), Kind.LEAVE_ROLLOUT, 0)
    assert (decision.accepted, decision.reason_code) == (False, "capacity")
    assert decision.reason == "the core stays in rollout: 1 x 64 < W 65"


def test_the_core_stays_while_too_few_groups_are_ready() -> None:
    decision = only(snapshot_with(20, burst(num_ready=1, num_unfinished=3)), Kind.LEAVE_ROLLOUT, 0)
    assert (decision.accepted, decision.reason_code) == (False, "supply_short")
    assert "1 of 2 groups are ready" in decision.reason


def test_supply_must_hold_for_its_time() -> None:
    young = burst(num_ready=2, num_unfinished=3)
    fresh = snapshot_with(20, young, taken_at_s=NOW_S - 9.5)
    decision = only(fresh, Kind.LEAVE_ROLLOUT, 0)
    assert (decision.accepted, decision.reason_code) == (False, "supply_not_held")
    assert "0.5 s of 1 s" in decision.reason


def test_all_that_the_burst_can_still_yield_is_enough() -> None:
    assert only(snapshot_with(0, burst(num_ready=1)), Kind.LEAVE_ROLLOUT, 0).accepted


def test_a_single_core_leaves_only_when_nothing_is_owed() -> None:
    alone = {"cells": (cell(0),), "settings": settings(cells=1, concurrency_per_cell=128)}
    assert not only(snapshot_with(1, burst(num_ready=8, num_unfinished=1), **alone), Kind.LEAVE_ROLLOUT).accepted
    assert only(snapshot_with(0, burst(num_ready=16), **alone), Kind.LEAVE_ROLLOUT).accepted


def test_min_rollout_cells_stay_while_something_is_owed() -> None:
    strict = settings(min_rollout_cells=2)
    decision = only(snapshot_with(10, burst(num_ready=8, num_unfinished=2), settings=strict), Kind.LEAVE_ROLLOUT, 0)
    assert (decision.accepted, decision.reason_code) == (False, "min_rollout_cells")
    assert only(snapshot_with(0, burst(num_ready=8), settings=strict), Kind.LEAVE_ROLLOUT, 0).accepted


def test_only_confirmed_rollout_cells_count_as_capacity() -> None:
    cells = (cell(0), cell(1, SWITCHING, desired_role=ROLLOUT))
    decision = only(snapshot_with(10, burst(num_ready=8, num_unfinished=2), cells=cells), Kind.LEAVE_ROLLOUT, 0)
    assert (decision.reason_code, "0 x 64 < W 10" in decision.reason) == ("capacity", True)


def test_the_satellite_with_the_least_work_to_move_leaves_first() -> None:
    cells = (cell(0, TRAINING), cell(1, num_calls=5), cell(2, num_calls=2, num_kv_tokens=9), cell(3, num_calls=2))
    snapshot = snapshot_with(
        100,
        burst(num_ready=8, num_unfinished=13),
        cells=cells,
        batch=batch(num_unclaimed=50),
        work=Work(micro_step_s=1.0, micro_steps_per_group=1.0),
    )
    leaving = [d.cell_index for d in decided(snapshot) if d.kind == Kind.LEAVE_ROLLOUT and d.accepted]
    assert leaving == [3]  # two must stay for 100 owed
    refused = [d for d in decided(snapshot) if d.kind == Kind.LEAVE_ROLLOUT and not d.accepted]
    assert [d.reason for d in refused] == [
        "cell 2 stays in rollout: 1 x 64 < W 100",
        "cell 1 stays in rollout: 1 x 64 < W 100",
    ]


@pytest.mark.parametrize(("unclaimed", "joins"), [(3, True), (2, False)])
def test_a_satellite_joins_when_the_work_outlasts_its_switch(unclaimed: int, joins: bool) -> None:
    snapshot = snapshot_with(
        0,
        burst(num_admitted=4),
        cells=(cell(0, TRAINING), cell(1, to_training_s=1.25)),
        batch=batch(num_unclaimed=unclaimed, sealed=True),
        work=Work(micro_step_s=0.5, micro_steps_per_group=1.0),
    )
    decision = only(snapshot, Kind.LEAVE_ROLLOUT, 1)
    assert decision.accepted is joins
    sign = ">" if joins else "<="
    assert f"{unclaimed} micro-steps are {unclaimed * 0.5:.2f} s of work {sign} 1.25 s for a switch" in decision.reason


def test_a_satellite_never_leaves_before_the_core() -> None:
    snapshot = snapshot_with(20, burst(num_ready=1, num_unfinished=4))
    assert only(snapshot, Kind.LEAVE_ROLLOUT, 1).reason_code == "core_first"


def test_training_cells_return_while_more_is_owed_than_rollout_holds_satellites_first() -> None:
    snapshot = snapshot_with(
        100,
        burst(num_unfinished=12, num_admitted=4),
        cells=(cell(0, TRAINING), cell(1, TRAINING), cell(2)),
        batch=batch(num_unclaimed=2),
    )
    decisions = [d for d in decided(snapshot) if d.kind == Kind.RETURN_TO_ROLLOUT]
    assert [(d.cell_index, d.accepted) for d in decisions] == [(1, True)]
    assert decisions[0].reason == "cell 1 returns to rollout: W 100 > 1 x 64"


def test_the_core_parks_its_gradient_when_rollout_needs_it_too() -> None:
    snapshot = snapshot_with(
        128, burst(num_unfinished=16, num_admitted=4), cells=(cell(0, TRAINING), cell(1)), batch=batch()
    )
    assert only(snapshot, Kind.RETURN_TO_ROLLOUT, 0).accepted
    assert none(snapshot, Kind.SEAL_BATCH)


def test_a_parked_core_goes_back_to_its_batch() -> None:
    snapshot = snapshot_with(10, burst(num_unfinished=2, num_ready=1, num_admitted=4), batch=batch())
    decision = only(snapshot, Kind.LEAVE_ROLLOUT, 0)
    assert (decision.accepted, decision.reason_code) == (True, "batch_in_progress")


def test_a_parked_core_waits_while_its_batch_has_nothing_to_do() -> None:
    snapshot = snapshot_with(10, burst(num_unfinished=2, num_admitted=4), batch=batch())
    assert only(snapshot, Kind.LEAVE_ROLLOUT, 0).reason_code == "no_work"


def test_a_satellite_returns_when_the_batch_is_sealed_and_claimed() -> None:
    snapshot = snapshot_with(
        0, burst(num_admitted=8), cells=(cell(0, TRAINING), cell(1, TRAINING)), batch=batch(sealed=True, num_groups=8)
    )
    decision = only(snapshot, Kind.RETURN_TO_ROLLOUT, 1)
    assert (decision.accepted, decision.reason_code) == (True, "claimed")


def test_a_satellite_stays_for_the_next_batch_when_its_groups_are_ready() -> None:
    snapshot = snapshot_with(
        0,
        burst(num_admitted=8, num_ready=8),
        cells=(cell(0, TRAINING), cell(1, TRAINING)),
        batch=batch(sealed=True, num_groups=8),
        work=Work(micro_step_s=0.5, micro_steps_per_group=1.0),
    )
    decision = only(snapshot, Kind.RETURN_TO_ROLLOUT, 1)
    assert (decision.accepted, decision.reason_code) == (False, "more_work")


@pytest.mark.parametrize(("idle_s", "returns"), [(0.5, False), (3.0, True)])
def test_a_satellite_that_idles_longer_than_a_switch_returns(idle_s: float, returns: bool) -> None:
    snapshot = snapshot_with(
        30,
        burst(num_admitted=4, num_unfinished=4),
        cells=(cell(0, TRAINING), cell(1, TRAINING, last_claim_s=NOW_S - idle_s), cell(2)),
        batch=batch(),
        work=Work(micro_step_s=0.5, micro_steps_per_group=1.0),
    )
    assert only(snapshot, Kind.RETURN_TO_ROLLOUT, 1).accepted is returns


def test_after_a_step_the_core_stays_only_while_supply_holds() -> None:
    cells = (cell(0, TRAINING), cell(1))
    stays = snapshot_with(10, burst(num_ready=3, num_unfinished=2), cells=cells, version=1, evaluated=(0,))
    assert none(stays, Kind.RETURN_TO_ROLLOUT)
    assert only(stays, Kind.OPEN_BATCH).accepted
    returns = snapshot_with(10, burst(num_ready=1, num_unfinished=2), cells=cells, version=1, evaluated=(0,))
    assert only(returns, Kind.RETURN_TO_ROLLOUT, 0).accepted
    assert none(returns, Kind.OPEN_BATCH)


def test_a_lost_cell_is_neither_capacity_nor_asked_to_move() -> None:
    snapshot = snapshot_with(10, burst(num_ready=8, num_unfinished=2), cells=(cell(0), cell(1, LOST)))
    decision = only(snapshot, Kind.LEAVE_ROLLOUT)
    assert (decision.reason_code, "0 x 64 < W 10" in decision.reason) == ("capacity", True)
