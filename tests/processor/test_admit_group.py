"""trainers.actions.admit_group and seal_batch: a ready group becomes micro-steps to claim.

See docs/algorithms.md §6–8, 11.
"""

from collections import defaultdict

import numpy as np
import pytest
from records import DONE, Made, make_run, record, record_conversation, scored

from agents.actions.errors import Refused
from agents.actions.finish_execution import finish_execution
from agents.core.advantage import advantages
from agents.core.outcome import HarnessEnd, Reason, Status, Verdict
from agents.core.roles import Role
from agents.models import Call, Draw, Execution, Group, RunEvent, Trajectory
from agents.replay import replay_draws
from trainers.actions.admit_group import admit_group
from trainers.actions.seal_batch import seal_batch
from trainers.core.payload import decode_payload
from trainers.models import Batch, MicroStep

pytestmark = pytest.mark.django_db


def finished_group(made: Made, rewards: list[float], **conversation: int) -> Group:
    group = made.group(len(rewards))
    for execution, reward in zip(group.executions.order_by("index"), rewards, strict=True):
        record_conversation(execution, start=100 * (execution.index + 1), **conversation)
        finish_execution(execution.pk, 1, scored(reward), DONE)
    return group


def test_a_groups_trajectories_become_micro_steps_with_advantage_and_weight() -> None:
    made = make_run()
    group = finished_group(made, [0.0, 1.0, 1.0, 0.5])
    batch = made.batch()
    assert admit_group(batch.pk, group.pk) == 1
    payload = decode_payload(MicroStep.objects.defer(None).get().payload)
    expected = advantages({0: 0.0, 1: 1.0, 2: 1.0, 3: 0.5})
    for start, end in zip(payload.cu_seqlens[:-1], payload.cu_seqlens[1:], strict=True):
        index = int(payload.input_ids[start]) // 100 - 1
        at = payload.target_mask[start:end]
        assert int(at.sum()) == 9
        assert payload.input_ids[start:end][at].tolist() == [1, 2, 3, 1, 5, 6, 2, 5, 6]
        assert set(payload.advantages[start:end][at].tolist()) == {np.float32(expected[index])}
        assert payload.weights[start:end][at].sum() == pytest.approx(1)
        assert payload.behaviour_logprobs[start:end][at].tolist() == [-0.5] * 9
    batch.refresh_from_db()
    group.refresh_from_db()
    assert (batch.num_groups, batch.num_votes, group.state, group.batch) == (1, 4, "admitted", 1)
    advantage_on_row = dict(Execution.objects.values_list("index", "advantage"))
    assert advantage_on_row == pytest.approx(expected)


def test_weights_of_one_execution_add_up_to_one_over_all_its_trajectories() -> None:
    made = make_run()
    group = made.group(2)
    for execution in group.executions.order_by("index"):
        record_conversation(execution)
        record(execution, 3, [60 + execution.index, 61], [9, 9, 9, 9], role=Role.SUB_AGENT)
        record(execution, 4, [70 + execution.index, 71], [8], role=Role.MAIN_SUMMARY)
        finish_execution(execution.pk, 1, scored(float(execution.index)), DONE)
    admit_group(made.batch().pk, group.pk)
    assert Trajectory.objects.count() == 6
    total = defaultdict(float)
    for row in MicroStep.objects.defer(None):
        payload = decode_payload(row.payload)
        assert row.num_targets == payload.num_targets
        for advantage, weight in zip(payload.advantages, payload.weights, strict=True):
            total[float(advantage)] += float(weight)
    assert [weight for advantage, weight in total.items() if advantage] == pytest.approx([1, 1])


def test_a_stale_trajectory_is_left_out_with_an_alarm_and_the_rest_is_trained() -> None:
    made = make_run()
    group = made.group(2)
    old, new = group.executions.order_by("index")
    record_conversation(old, version=1)
    record(old, 3, [60, 61], [9, 9], role=Role.SUB_AGENT, version=2)
    record_conversation(new, version=3, start=200)
    for execution in (old, new):
        finish_execution(execution.pk, 1, scored(float(execution.index)), DONE)
    admit_group(made.batch(number=4, version=3).pk, group.pk)
    rows = Trajectory.objects.filter(execution=old).order_by("number").values_list("role", "batch")
    assert list(rows) == [("main", None), ("sub-agent", 4)]
    payload = decode_payload(MicroStep.objects.defer(None).get().payload)
    assert sorted(set(payload.versions[payload.target_mask].tolist())) == [2, 3]
    assert payload.weights[payload.versions == 2].sum() == pytest.approx(1)
    alarm = RunEvent.objects.get(kind="alarm_raised")
    assert (alarm.payload["code"], alarm.payload["execution"]) == ("stale_trajectory", old.pk)
    assert Batch.objects.get().num_votes == 2


def test_no_work_votes_and_has_a_dummy_trajectory_without_targets() -> None:
    made = make_run()
    group = made.group(2)
    idle, worker = group.executions.order_by("index")
    for execution, verdict in ((idle, Verdict(Status.NO_WORK)), (worker, scored(1.0))):
        record_conversation(execution)
        finish_execution(execution.pk, 1, verdict, DONE)
    admit_group(made.batch().pk, group.pk)
    dummy = Trajectory.objects.get(execution=idle)
    assert (dummy.leaf_call, dummy.num_tokens, dummy.num_targets, dummy.batch) == (None, 0, 0, 1)
    assert MicroStep.objects.get().num_trajectories == 1
    idle.refresh_from_db()
    assert idle.advantage == pytest.approx(-(0.5**0.5), abs=1e-5)
    assert Batch.objects.get().num_votes == 2


def test_unresolved_executions_are_not_in_the_batch() -> None:
    made = make_run()
    group = made.group(3)
    for execution in group.executions.order_by("index"):
        record_conversation(execution)
        lost = Verdict(Status.UNRESOLVED, reason_code=Reason.SANDBOX_LOST)
        finish_execution(execution.pk, 1, lost if execution.index == 1 else scored(execution.index / 2), DONE)
    admit_group(made.batch().pk, group.pk)
    assert Batch.objects.get().num_votes == 2
    assert Execution.objects.get(index=1).advantage is None
    assert not Trajectory.objects.filter(execution__index=1).exists()


def test_an_execution_whose_calls_are_all_quarantined_votes_and_trains_nothing() -> None:
    made = make_run()
    group = made.group(2)
    bad, good = group.executions.order_by("index")
    record(bad, 0, [1, 2], [3], state=Call.State.QUARANTINED)
    record_conversation(good)
    for execution in (bad, good):
        finish_execution(execution.pk, 1, scored(float(execution.index)), HarnessEnd(0))
    admit_group(made.batch().pk, group.pk)
    assert Batch.objects.get().num_votes == 2
    bad.refresh_from_db()
    assert bad.exclusions == [[0, "quarantined"]]
    assert not bad.trajectories.exists()


def test_a_call_without_finite_logprobs_or_whole_versions_is_not_trained() -> None:
    made = make_run()
    group = made.group(2)
    for execution in group.executions.order_by("index"):
        record_conversation(execution)
        record(execution, 3, [50], [4], role=Role.SUB_AGENT, logprobs=[float("nan")])
        Call.objects.filter(pk=record(execution, 4, [51], [4], role=Role.SUB_AGENT).pk).update(versions=[[0, 0, 0]])
        finish_execution(execution.pk, 1, scored(float(execution.index)), DONE)
    admit_group(made.batch().pk, group.pk)
    for execution in group.executions.all():
        assert [3, "quarantined"] in execution.exclusions
        assert [4, "quarantined"] in execution.exclusions


def test_recorded_draws_replay_to_the_same_draws() -> None:
    made = make_run()
    group = made.group(2)
    for execution in group.executions.order_by("index"):
        record_conversation(execution)
        for number in range(3, 9):
            record(execution, number, [60, 61], [number] * number, role=Role.SUB_AGENT)
        finish_execution(execution.pk, 1, scored(float(execution.index)), DONE)
    admit_group(made.batch().pk, group.pk, j_max=3)
    for execution in group.executions.all():
        assert execution.draws.count() == 3
        assert replay_draws(execution).agree
    changed = Draw.objects.filter(execution=execution).first()
    Draw.objects.filter(pk=changed.pk).update(random=0.123)
    assert not replay_draws(execution).agree


def test_shuffled_rewards_keep_the_groups_values_and_lose_their_owners() -> None:
    rewards = [i / 8 for i in range(8)]
    made = make_run(shuffle_rewards=True)
    batch, pairs = made.batch(), []
    for _ in range(6):
        group = finished_group(made, rewards)
        admit_group(batch.pk, group.pk)
        given = list(group.executions.order_by("index").values_list("advantage", flat=True))
        expected = sorted(advantages(dict(enumerate(rewards))).values())
        assert sorted(given) == pytest.approx(expected)
        pairs += list(zip(rewards, given, strict=True))
    correlation = np.corrcoef(np.array(pairs).T)[0, 1]
    assert abs(correlation) < 0.4


def test_a_group_is_admitted_once_and_only_when_ready() -> None:
    made = make_run()
    group, batch = finished_group(made, [0.0, 1.0]), made.batch()
    admit_group(batch.pk, group.pk)
    with pytest.raises(Refused, match="admitted training group"):
        admit_group(batch.pk, group.pk)
    with pytest.raises(Refused, match="dispatched training group"):
        admit_group(batch.pk, made.group(2).pk)
    assert MicroStep.objects.count() == 1


def test_micro_steps_hold_no_more_tokens_than_the_run_allows_and_are_numbered_through() -> None:
    made = make_run(tokens_per_micro_step=70, context_tokens=60)
    batch = made.batch()
    for _ in range(2):
        admit_group(batch.pk, finished_group(made, [0.0, 1.0, 0.5, 0.25]).pk)
    rows = list(MicroStep.objects.order_by("number"))
    assert [row.number for row in rows] == list(range(4))
    assert [(row.num_tokens, row.num_trajectories) for row in rows] == [(66, 2)] * 4


def test_sealing_fixes_the_votes_and_stops_admission() -> None:
    made = make_run()
    batch, late = made.batch(), finished_group(made, [0.0, 1.0])
    admit_group(batch.pk, finished_group(made, [0.0, 1.0, 0.5]).pk)
    sealed = seal_batch(batch.pk)
    assert (sealed.state, sealed.num_votes, sealed.num_groups) == ("sealed", 3, 1)
    with pytest.raises(Refused, match="is sealed"):
        admit_group(batch.pk, late.pk)
    with pytest.raises(Refused, match="is sealed"):
        seal_batch(batch.pk)
    event = RunEvent.objects.get(kind="batch_sealed")
    assert event.payload == {"batch": 1, "state": "sealed", "num_groups": 1, "num_votes": 3, "num_micro_steps": 1}


def test_a_batch_without_votes_is_empty_and_takes_no_step() -> None:
    assert seal_batch(make_run().batch().pk).state == "empty"


def test_a_group_is_admitted_with_few_queries(django_assert_max_num_queries) -> None:
    made = make_run()
    group, batch = finished_group(made, [i / 8 for i in range(8)]), made.batch()
    with django_assert_max_num_queries(15):
        admit_group(batch.pk, group.pk)
