"""agents.core.outcome: nothing but a good score becomes a reward (docs/algorithms.md §5)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.outcome import (
    UNRESOLVED_REASONS,
    HarnessEnd,
    Outcome,
    Reason,
    Status,
    Verdict,
    cancelled,
    judge,
    training_reward,
)

OK = HarnessEnd(exit_code=0)


def scored(value: float) -> Verdict:
    return Verdict(Status.SCORED, value)


@pytest.mark.parametrize(
    ("end", "outcome", "reason"),
    [
        (OK, Outcome.COMPLETE, Reason.COMPLETED),
        (HarnessEnd(exit_code=137, timeout=Reason.HARNESS_TIMEOUT), Outcome.PARTIAL, Reason.HARNESS_TIMEOUT),
        (HarnessEnd(timeout=Reason.OVERALL_TIMEOUT), Outcome.PARTIAL, Reason.OVERALL_TIMEOUT),
        (HarnessEnd(exit_code=1), Outcome.PARTIAL, Reason.HARNESS_CRASHED),
    ],
)
def test_a_scored_execution_keeps_its_reward_however_the_harness_ended(
    end: HarnessEnd, outcome: Outcome, reason: Reason
) -> None:
    result = judge(scored(0.25), end, 3)
    assert (result.outcome, result.reason_code, result.reward) == (outcome, reason, 0.25)


def test_no_work_is_a_zero_that_votes() -> None:
    result = judge(Verdict(Status.NO_WORK), OK, 1)
    assert (result.outcome, result.reward, result.outcome.votes) == (Outcome.NO_WORK, 0.0, True)


@pytest.mark.parametrize("status", [Status.SCORED, Status.NO_WORK])
def test_an_execution_without_an_acknowledged_call_is_unresolved_not_zero(status: Status) -> None:
    result = judge(Verdict(status, 0.0), OK, 0)
    assert (result.outcome, result.reason_code) == (Outcome.UNRESOLVED, Reason.NO_CALL_ACKNOWLEDGED)
    assert result.reward is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_a_reward_that_is_not_a_finite_number_is_unresolved(value: float | None) -> None:
    result = judge(Verdict(Status.SCORED, value), OK, 1)
    assert (result.outcome, result.reason_code, result.reward) == (Outcome.UNRESOLVED, Reason.REWARD_INVALID, None)


@pytest.mark.parametrize("reason", sorted(UNRESOLVED_REASONS))
def test_an_unresolved_verdict_keeps_its_reason_and_has_no_reward(reason: Reason) -> None:
    result = judge(Verdict(Status.UNRESOLVED, 1.0, reason), OK, 5)
    assert (result.outcome, result.reason_code, result.reward) == (Outcome.UNRESOLVED, reason, None)
    assert not result.outcome.votes


def test_an_unresolved_verdict_with_the_reason_of_a_success_is_refused() -> None:
    with pytest.raises(ValueError, match="no reason for an unresolved"):
        judge(Verdict(Status.UNRESOLVED, reason_code=Reason.COMPLETED), OK, 1)


def test_a_cancelled_execution_has_no_reward_and_no_vote() -> None:
    result = cancelled("the run was stopped")
    assert (result.reward, result.outcome.votes) == (None, False)


@given(
    st.sampled_from(Status),
    st.one_of(st.none(), st.floats(allow_nan=True)),
    st.sampled_from([None, *sorted(UNRESOLVED_REASONS)]),
    st.builds(HarnessEnd, st.one_of(st.none(), st.integers(0, 255)), st.sampled_from([None, Reason.HARNESS_TIMEOUT])),
    st.integers(0, 3),
)
def test_exactly_the_voting_outcomes_have_a_finite_reward(status, value, reason, end, num_calls) -> None:
    result = judge(Verdict(status, value, reason), end, num_calls)
    assert result.outcome.votes == (result.reward is not None)
    assert result.reward is None or math.isfinite(result.reward)


@pytest.mark.parametrize(
    ("reward", "end", "expected"),
    [
        (1.0, OK, 1.0),
        (1.0, HarnessEnd(0, num_malformed_calls=1), 0.8),
        (1.0, HarnessEnd(0, hit_turn_limit=True), 0.8),
        (-1.0, HarnessEnd(0, num_malformed_calls=2, hit_turn_limit=True), -1.2),
        (0.0, HarnessEnd(0, num_malformed_calls=2), 0.0),
    ],
)
def test_malformed_calls_and_the_turn_limit_never_raise_the_training_reward(reward, end, expected) -> None:
    assert training_reward(reward, end, 0.2) == pytest.approx(expected)
