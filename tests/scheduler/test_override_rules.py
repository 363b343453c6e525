"""A person's word over the scheduler's (docs/algorithms.md §9)."""

import pytest

from scheduler.core.decisions import Kind
from scheduler.core.settings import setting_problem
from scheduler.core.snapshot import ROLLOUT, STOPPED, TRAINING, Override
from tests.scheduler.snapshots import NOW_S, burst, cell, decided, none, only, snapshot_with

LATER_S = NOW_S + 60


def test_a_pinned_cell_stays_where_it_is_pinned() -> None:
    pin = Override(5, "pin", LATER_S, cell_index=0, role=ROLLOUT)
    snapshot = snapshot_with(0, burst(num_ready=8), overrides=(pin,))
    decision = only(snapshot, Kind.LEAVE_ROLLOUT, 0)
    assert (decision.accepted, decision.reason_code) == (False, "override")
    assert "override 5 pins it to rollout" in decision.reason


def test_a_pin_to_training_obeys_the_capacity_rule_unless_it_is_unsafe() -> None:
    pin = Override(5, "pin", LATER_S, cell_index=1, role=TRAINING)
    refused = [d for d in decided(snapshot_with(100, burst(num_unfinished=13), overrides=(pin,))) if d.cell_index == 1]
    assert (refused[0].accepted, refused[0].reason_code) == (False, "capacity")
    unsafe = Override(5, "pin", LATER_S, cell_index=1, role=TRAINING, unsafe=True)
    moved = [d for d in decided(snapshot_with(100, burst(num_unfinished=13), overrides=(unsafe,))) if d.accepted]
    assert [(d.kind, d.cell_index, d.params.unsafe) for d in moved] == [(Kind.LEAVE_ROLLOUT, 1, True)]


def test_an_expired_override_means_nothing() -> None:
    pin = Override(5, "pin", NOW_S, cell_index=0, role=ROLLOUT)
    assert only(snapshot_with(0, burst(num_ready=8), overrides=(pin,)), Kind.LEAVE_ROLLOUT, 0).accepted


def test_switching_can_be_forbidden_for_all_cells() -> None:
    forbid = Override(5, "forbid_switch", LATER_S)
    snapshot = snapshot_with(0, burst(num_ready=8), overrides=(forbid,))
    assert none(snapshot, Kind.LEAVE_ROLLOUT)


def test_dispatch_can_be_held() -> None:
    hold = Override(5, "hold_dispatch", LATER_S)
    assert (
        only(snapshot_with(0, overrides=(hold,)), Kind.DISPATCH_BURST).reason == "no burst: override 5 holds dispatch"
    )


def test_a_setting_is_changed_from_the_next_decision_on() -> None:
    change = Override(5, "setting", LATER_S, name="rho_min", number=1.0)
    decision = only(snapshot_with(0, burst(num_ready=2, num_unfinished=1), overrides=(change,)), Kind.LEAVE_ROLLOUT, 0)
    assert (decision.accepted, decision.reason_code) == (False, "supply_short")
    assert "2 of 8" in decision.reason


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("rho_min", 0.5, ""),
        ("rho_min", 0, "rho_min needs a number in (0, 1], got 0"),
        ("j_max", 2.5, "j_max needs a whole number of at least 1, got 2.5"),
        ("concurrency_per_cell", "many", "concurrency_per_cell needs a number of at least 1, got 'many'"),
        ("steps", 3, "'steps' cannot be changed on a live run"),
    ],
)
def test_a_setting_that_cannot_be_changed_so_is_refused_with_what_is_allowed(
    name: str, value: object, problem: str
) -> None:
    found = setting_problem(name, value)
    assert found.startswith(problem)
    assert bool(found) is bool(problem)


def test_a_drained_cell_stops_when_the_others_hold_what_is_owed_and_starts_when_the_order_ends() -> None:
    drain = Override(5, "drain", LATER_S, cell_index=1)
    assert not only(snapshot_with(65, burst(num_unfinished=9), overrides=(drain,)), Kind.DRAIN_CELL).accepted
    assert only(snapshot_with(64, burst(num_unfinished=8), overrides=(drain,)), Kind.DRAIN_CELL).accepted
    stopped = (cell(0), cell(1, STOPPED))
    assert none(snapshot_with(10, burst(num_unfinished=2), overrides=(drain,), cells=stopped), Kind.START_CELL)
    assert only(snapshot_with(10, burst(num_unfinished=2), cells=stopped), Kind.START_CELL).cell_index == 1
