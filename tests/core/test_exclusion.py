"""agents.core.exclusion against the statistics module on the votes themselves."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.advantage import mean_and_std
from agents.core.exclusion import Exclusion, exclusion, totals

votes = st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=1, max_size=12)


def of(rewards: list[float], num_unresolved: int) -> Exclusion:
    mean, std = mean_and_std(rewards) if rewards else (None, None)
    return exclusion(len(rewards), mean, std, num_unresolved)


@given(votes, st.integers(0, 5))
def test_counting_them_as_zero_gives_the_statistics_of_the_votes_with_zeros_added(rewards, num_unresolved) -> None:
    found, naive = of(rewards, num_unresolved), [*rewards, *[0.0] * num_unresolved]
    assert found.mean == pytest.approx(statistics.mean(rewards), abs=1e-9)
    assert found.mean_as_zero == pytest.approx(statistics.mean(naive), abs=1e-9)
    expected = statistics.stdev(naive) if len(naive) > 1 else 0.0
    assert found.std_as_zero == pytest.approx(expected, abs=1e-7)


@given(votes)
def test_a_group_without_unresolved_executions_is_not_shifted(rewards) -> None:
    found = of(rewards, 0)
    assert (found.mean_shift, found.std_shift) == (pytest.approx(0, abs=1e-12), pytest.approx(0, abs=1e-7))


def test_a_group_of_unresolved_executions_alone_has_no_mean_and_would_have_had_zero() -> None:
    assert of([], 3) == Exclusion(0, 3, None, None, 0.0, 0.0)
    assert of([], 0) == Exclusion(0, 0, None, None, None, None)
    assert of([], 3).mean_shift == 0


def test_votes_without_statistics_are_refused() -> None:
    with pytest.raises(ValueError, match="2 votes without a mean"):
        exclusion(2, None, None, 1)


def test_totals_are_over_the_groups_that_lost_a_vote() -> None:
    groups = [of([1.0, 1.0], 2), of([1.0, 0.0], 0), of([0.5, 1.0, 1.0], 1), of([], 2)]
    found = totals(groups)
    assert (found.num_executions, found.num_unresolved, found.share) == (12, 5, 5 / 12)
    assert (found.num_groups, found.num_affected, found.num_lost) == (4, 3, 1)
    assert found.mean_shift == pytest.approx((0.5 + 2.5 / 3 / 4) / 2)
    assert found.max_mean_shift == pytest.approx(0.5)
    assert totals([]).share == 0
