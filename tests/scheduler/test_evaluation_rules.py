"""One cell outside R at version v, until the evaluation ends (docs/algorithms.md §9)."""

from dataclasses import replace

import pytest

from scheduler.core.counters import Counters
from scheduler.core.decisions import Kind, LaunchEvaluation
from scheduler.core.snapshot import LOST, ROLLOUT, SWITCHING, TRAINING, Batch, Evaluation
from tests.scheduler.snapshots import burst, cell, decided, none, only, settings, snapshot_with


def test_version_0_is_evaluated_before_the_first_burst_fills_rollout() -> None:
    snapshot = snapshot_with(0, evaluated=(), counters=Counters(0, 0, 0), next_burst=0, next_evaluation=0)
    kinds = [d.kind for d in decided(snapshot) if d.accepted]
    assert kinds == [Kind.START_EVALUATION, Kind.DISPATCH_BURST]
    decision = only(snapshot, Kind.START_EVALUATION)
    assert (decision.cell_index, decision.params.version, decision.params.num_tasks) == (1, 0, 64)


def test_a_rollout_cell_is_reserved_only_if_the_others_hold_what_is_owed() -> None:
    busy = snapshot_with(65, burst(num_unfinished=9), evaluated=())
    decision = only(busy, Kind.START_EVALUATION)
    assert (decision.accepted, decision.reason) == (False, "evaluation of version 0 waits: 1 x 64 < W 65")
    assert only(snapshot_with(64, burst(num_unfinished=8), evaluated=()), Kind.START_EVALUATION).cell_index == 1


def test_an_idle_training_cell_evaluates_when_rollout_cannot_spare_one() -> None:
    cells = (cell(0, TRAINING), cell(1, weight_version=4))
    snapshot = snapshot_with(5, burst(num_ready=8, num_unfinished=1, version=4), cells=cells, version=4)
    decision = only(snapshot, Kind.START_EVALUATION)
    assert (decision.cell_index, decision.params.switches) == (0, True)


def test_the_evaluation_and_the_next_burst_wait_for_a_satellite_that_comes_in_a_moment() -> None:
    switching = (cell(0, TRAINING), cell(1, SWITCHING, desired_role=ROLLOUT))
    snapshot = snapshot_with(0, cells=switching, version=4)
    assert only(snapshot, Kind.START_EVALUATION).reason_code == "cell_coming"
    assert only(snapshot, Kind.DISPATCH_BURST).reason_code == "evaluation_first"
    updating = snapshot_with(0, cells=(cell(0, TRAINING), cell(1, weight_version=3)), version=4)
    assert only(updating, Kind.START_EVALUATION).reason_code == "cell_coming"
    there = snapshot_with(0, cells=(cell(0, TRAINING), cell(1, weight_version=4)), version=4)
    assert only(there, Kind.START_EVALUATION).cell_index == 1
    assert only(there, Kind.DISPATCH_BURST).accepted


def test_a_reserved_cell_is_no_capacity_and_never_leaves() -> None:
    cells = (cell(0), cell(1, evaluation=0))
    snapshot = snapshot_with(10, burst(num_ready=8, num_unfinished=2), cells=cells, evaluation=Evaluation(0, 0, 0, 9))
    decision = only(snapshot, Kind.LEAVE_ROLLOUT)
    assert (decision.reason_code, "0 x 64 < W 10" in decision.reason) == ("capacity", True)


def test_no_batch_opens_before_a_due_version_is_being_evaluated() -> None:
    cells = (cell(0, TRAINING), cell(1, weight_version=3))
    snapshot = snapshot_with(
        5, burst(num_ready=8, num_unfinished=1, version=4), cells=cells, version=4, policy_kind="async-streamed"
    )
    assert only(snapshot, Kind.OPEN_BATCH).reason_code == "evaluation_first"


def test_no_batch_is_sealed_before_the_reserved_cell_serves_the_version() -> None:
    batch = Batch(5, 0, 4, False, 8, 0, 0, 8)
    switching = (cell(0, TRAINING), cell(1, SWITCHING, desired_role=ROLLOUT, evaluation=1))
    waits = snapshot_with(
        0, burst(num_admitted=8), cells=switching, version=4, evaluated=(0, 4), batch=batch,
        evaluation=Evaluation(1, 4, 64, 0),
    )  # fmt: skip
    assert only(waits, Kind.SEAL_BATCH).reason_code == "evaluation_first"
    serving = (cell(0, TRAINING), cell(1, evaluation=1, weight_version=4))
    ready = snapshot_with(
        0, burst(num_admitted=8), cells=serving, version=4, evaluated=(0, 4), batch=batch,
        evaluation=Evaluation(1, 4, 64, 0),
    )  # fmt: skip
    assert only(ready, Kind.SEAL_BATCH).accepted
    assert only(ready, Kind.LAUNCH_EVALUATION).params == LaunchEvaluation(evaluation=1, count=64)


def test_evaluation_executions_take_no_more_places_than_their_cell_has() -> None:
    cells = (cell(0), cell(1, evaluation=0))
    snapshot = snapshot_with(0, cells=cells, evaluation=Evaluation(0, 0, num_waiting=30, num_running=60))
    assert only(snapshot, Kind.LAUNCH_EVALUATION).params.count == 4


def test_an_evaluation_that_lost_its_cell_gets_another_at_the_same_version() -> None:
    cells = (cell(0), cell(1, LOST))
    snapshot = snapshot_with(0, cells=cells, evaluation=Evaluation(0, 0, 3, 5))
    assert only(snapshot, Kind.RESERVE_CELL).cell_index == 0


def test_an_evaluation_that_lost_its_cell_is_cancelled_once_the_version_has_moved_on() -> None:
    cells = (cell(0, weight_version=1), cell(1, LOST))
    snapshot = snapshot_with(0, cells=cells, version=1, evaluation=Evaluation(0, 0, 3, 5))
    assert only(snapshot, Kind.CANCEL_EVALUATION).accepted


@pytest.mark.parametrize("policy_kind", ["elastic", "elastic+", "colocate"])
def test_no_cell_leaves_and_no_batch_opens_while_an_evaluation_waits_for_another_cell(policy_kind: str) -> None:
    """The only cell came back after it was lost. If it trained, the evaluation would never get it."""
    snapshot = snapshot_with(
        24, burst(num_ready=8, num_unfinished=3), settings=settings(cells=1), cells=(cell(0),), policy_kind=policy_kind,
        evaluation=Evaluation(0, 0, 3, 5),
    )  # fmt: skip
    assert not [d for d in decided(snapshot) if d.accepted]
    drained = replace(snapshot, counters=Counters(64, 64, 64))
    assert only(drained, Kind.RESERVE_CELL).cell_index == 0


def test_without_evaluation_nothing_waits_for_it() -> None:
    never = settings(eval_every_steps=0)
    snapshot = snapshot_with(0, burst(num_ready=8), settings=never, evaluated=())
    assert none(snapshot, Kind.START_EVALUATION)
    assert only(snapshot, Kind.OPEN_BATCH).accepted
