"""agents.actions.finish_execution: the result of an attempt, once, in one transaction.

See docs/algorithms.md §3, §5, §6.
"""

import pytest
from records import DONE, make_run, record, record_conversation, scored

from agents.actions.close_group import close_group_if_complete
from agents.actions.finish_execution import finish_execution
from agents.core.codec import decode_node
from agents.core.outcome import HarnessEnd, Reason, Status, Verdict
from agents.models import Assessment, Call, Execution, Group, Node, Run, RunEvent

pytestmark = pytest.mark.django_db


def first(group: Group) -> Execution:
    return group.executions.order_by("index").first()


def test_a_scored_execution_is_finished_counted_and_told() -> None:
    made = make_run()
    execution = first(made.group(4))
    record_conversation(execution)
    assert finish_execution(execution.pk, 1, scored(0.75), DONE)
    execution.refresh_from_db()
    assert (execution.state, execution.outcome, execution.reward) == ("finished", "complete", 0.75)
    assert (execution.training_reward, execution.reason_code) == (0.75, "completed")
    assert (execution.key_hash, execution.lease_owner, execution.lease_expires_at) == (None, "", None)
    assert Run.objects.get().finished == 1
    assert execution.assessments.get().rewards == {"reward": 0.75}
    event = RunEvent.objects.get()
    assert (event.seq, event.kind, event.payload["execution"]) == (1, "execution_finished", execution.pk)


def test_the_tree_is_written_as_nodes_that_hold_each_token_once() -> None:
    made = make_run()
    execution = first(made.group(1))
    record_conversation(execution, num_calls=3, version=2)
    record(execution, 3, [50, 51], [9], role="sub-agent", version=3)
    finish_execution(execution.pk, 1, scored(1.0), DONE)
    execution.refresh_from_db()
    nodes = list(Node.objects.with_tokens().order_by("number"))
    assert [(n.call_number, n.parent_number, n.depth, n.num_tokens, n.num_sampled, n.role) for n in nodes] == [
        (0, None, 0, 23, 3, "main"),
        (1, 0, 23, 5, 3, "main"),
        (2, 1, 28, 5, 3, "main"),
        (3, None, 0, 3, 1, "sub-agent"),
    ]
    assert decode_node(nodes[1].tokens).ids.tolist() == [7, 8, 1, 5, 6]
    assert decode_node(nodes[1].tokens).versions.tolist() == [-1, -1, 2, 2, 2]
    assert (execution.num_calls, execution.num_unique_tokens, execution.num_sampled_tokens) == (4, 36, 10)
    assert execution.num_total_tokens == 23 + 28 + 33 + 3
    assert (execution.min_version, execution.max_version) == (2, 3)


def test_a_second_finish_and_one_of_an_older_attempt_change_nothing() -> None:
    made = make_run()
    execution = first(made.group(2))
    Execution.objects.filter(pk=execution.pk).update(attempt=2)
    record_conversation(execution)
    assert not finish_execution(execution.pk, 1, scored(1.0), DONE)
    assert Assessment.objects.count() == 0
    execution.attempt = 2
    record_conversation(execution)
    assert finish_execution(execution.pk, 2, scored(0.5), DONE)
    assert not finish_execution(execution.pk, 2, scored(1.0), DONE)
    execution.refresh_from_db()
    assert (execution.reward, Assessment.objects.count(), Run.objects.get().finished) == (0.5, 1, 1)
    assert set(Node.objects.values_list("attempt", flat=True)) == {2}


def test_an_unresolved_execution_has_no_reward_and_does_not_vote() -> None:
    made = make_run()
    group = made.group(3)
    for execution, verdict in zip(
        group.executions.order_by("index"),
        [
            scored(1.0),
            scored(0.0),
            Verdict(Status.UNRESOLVED, reason_code=Reason.EVALUATION_TIMEOUT, reason="20 s over"),
        ],
        strict=True,
    ):
        record_conversation(execution)
        finish_execution(execution.pk, 1, verdict, DONE)
    assert execution.assessments.get().reason == "20 s over"
    group.refresh_from_db()
    assert (group.state, group.num_votes, group.reward_mean) == ("ready", 2, 0.5)


def test_malformed_calls_lower_the_training_reward_and_leave_the_reward() -> None:
    made = make_run()
    execution = first(made.group(2))
    record_conversation(execution)
    finish_execution(execution.pk, 1, scored(1.0), HarnessEnd(0, num_malformed_calls=2, hit_turn_limit=True))
    execution.refresh_from_db()
    assert (execution.reward, execution.training_reward) == (1.0, 0.8)
    assert (execution.num_malformed_calls, execution.hit_turn_limit) == (2, True)


def test_the_last_execution_makes_its_group_ready_in_the_order_of_the_event_log() -> None:
    made = make_run()
    groups = [made.group(2), made.group(2)]
    for group in reversed(groups):
        for execution in group.executions.order_by("index"):
            record_conversation(execution)
            finish_execution(execution.pk, 1, scored(float(execution.index)), DONE)
    ready = Group.objects.filter(state="ready").order_by("ready_order")
    assert [group.number for group in ready] == [1, 0]
    assert [(g.num_votes, g.reward_mean, round(g.reward_std, 6)) for g in ready] == [(2, 0.5, 0.707107)] * 2
    events = RunEvent.objects.filter(kind="group_ready").order_by("seq")
    assert [event.seq for event in events] == [group.ready_order for group in ready]


def test_a_group_with_too_few_votes_is_void() -> None:
    made = make_run()
    group = made.group(2)
    for execution in group.executions.order_by("index"):
        record_conversation(execution)
        verdict = scored(1.0) if execution.index else Verdict(Status.UNRESOLVED, reason_code=Reason.SANDBOX_LOST)
        finish_execution(execution.pk, 1, verdict, DONE)
    group.refresh_from_db()
    assert (group.state, group.num_votes, group.ready_order) == ("void", 1, None)
    assert RunEvent.objects.filter(kind="group_voided").count() == 1


def test_an_evaluation_execution_touches_no_counter() -> None:
    made = make_run()
    group = made.group(1, kind=Group.Kind.EVALUATION)
    execution = first(group)
    record_conversation(execution)
    finish_execution(execution.pk, 1, scored(0.5), HarnessEnd(0, num_malformed_calls=1))
    group.refresh_from_db()
    assert Run.objects.get().finished == 0
    assert (group.state, group.reward_mean, group.ready_order) == ("ready", 0.5, None)
    assert list(RunEvent.objects.values_list("kind", flat=True)) == ["execution_finished"]


def test_a_cancelled_last_execution_closes_its_group_too() -> None:
    made = make_run()
    group = made.group(3)
    *others, last = group.executions.order_by("index")
    for execution in others:
        record_conversation(execution)
        finish_execution(execution.pk, 1, scored(1.0), DONE)
    assert not close_group_if_complete(group.pk)
    Execution.objects.filter(pk=last.pk).update(state="cancelled", outcome="cancelled")
    assert close_group_if_complete(group.pk)
    assert not close_group_if_complete(group.pk)
    group.refresh_from_db()
    assert (group.state, group.num_votes) == ("ready", 2)


def test_calls_that_cannot_be_read_do_not_stop_the_execution() -> None:
    made = make_run()
    execution = first(made.group(2))
    record_conversation(execution, num_calls=2)
    broken = record(execution, 2, [1], [2])
    Call.objects.filter(pk=broken.pk).update(tokens=b"\x01torn")
    record(execution, 3, [4], [5], parent=2, prefix=2)
    assert finish_execution(execution.pk, 1, scored(1.0), DONE)
    execution.refresh_from_db()
    assert (execution.outcome, execution.num_calls, execution.num_unique_tokens) == ("complete", 4, 28)


def test_hostile_evaluator_output_is_kept_as_far_as_the_database_can() -> None:
    made = make_run()
    execution = first(made.group(2))
    record_conversation(execution)
    rewards = {"a\0b": 1.0, "odd": float("nan")}
    verdict = Verdict(Status.SCORED, 1.0, reason="\0", rewards=rewards, flags=["\ud800"], log="x\0y\udfff")
    assert finish_execution(execution.pk, 1, verdict, DONE)
    kept = execution.assessments.get()
    assert (kept.log, kept.reason, kept.flags, kept.rewards) == ("x\ufffdy?", "\ufffd", ["?"], {"a\ufffdb": 1.0})


def test_an_execution_without_calls_is_unresolved() -> None:
    made = make_run()
    execution = first(made.group(2))
    finish_execution(execution.pk, 1, scored(0.0), DONE)
    execution.refresh_from_db()
    assert (execution.outcome, execution.reason_code, execution.reward) == ("unresolved", "no_call_acknowledged", None)


def test_a_contradictory_verdict_ends_the_execution_as_unresolved_with_the_reason() -> None:
    made = make_run()
    execution = first(made.group(2))
    assert finish_execution(execution.pk, 1, Verdict(Status.UNRESOLVED, reason_code=Reason.COMPLETED), DONE)
    execution.refresh_from_db()
    assert (execution.state, execution.outcome, execution.reason_code) == (
        "finished",
        "unresolved",
        "result_not_written",
    )
    assert "completed" in execution.reason


def test_an_execution_is_finished_with_few_queries(django_assert_max_num_queries) -> None:
    made = make_run()
    execution = first(made.group(1))
    record_conversation(execution, num_calls=7)
    with django_assert_max_num_queries(14):
        finish_execution(execution.pk, 1, scored(0.75), DONE)
