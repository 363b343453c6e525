"""agents.core.advantage and agents.core.draws against the statistics module and plain counting."""

import math
import statistics
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core import draws
from agents.core.advantage import AdvantageKind, advantages, mean_and_std

KINDS: list[AdvantageKind] = list(get_args(AdvantageKind))
rewards = st.dictionaries(st.integers(0, 99), st.floats(-2, 2, allow_subnormal=False), min_size=2, max_size=9)


@given(rewards)
def test_each_kind_follows_its_formula(votes: dict[int, float]) -> None:
    values = list(votes.values())
    if min(values) == max(values):
        return
    mean, std = statistics.mean(values), statistics.stdev(values)
    for execution, reward in votes.items():
        others = [r for other, r in votes.items() if other != execution]
        expected = {
            "group_std": (reward - mean) / (std + 1e-6),
            "mean_only": reward - mean,
            "leave_one_out": reward - statistics.mean(others),
        }
        for kind in KINDS:
            assert advantages(votes, kind)[execution] == pytest.approx(expected[kind], rel=1e-9, abs=1e-12)


@given(st.dictionaries(st.integers(0, 99), st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_no_finite_vote_overflows(votes: dict[int, float]) -> None:
    assert all(map(math.isfinite, mean_and_std(list(votes.values()))))
    for kind in KINDS:
        assert all(map(math.isfinite, advantages(votes, kind).values()))


def test_votes_of_any_size_have_the_advantages_of_small_ones() -> None:
    small = advantages({1: 0.0, 2: 1.0, 3: 3.0})
    huge = advantages({1: 0.0, 2: 1e200, 3: 3e200})
    assert huge == pytest.approx(small, rel=1e-5)
    assert mean_and_std([1e308, 1e308, -1e308]) == pytest.approx((1e308 / 3, 1.1547e308), rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("votes", [{}, {4: 1.0}, {4: 0.1, 5: 0.1, 6: 0.1}])
def test_without_a_difference_every_advantage_is_exactly_zero(kind: AdvantageKind, votes: dict[int, float]) -> None:
    assert advantages(votes, kind) == dict.fromkeys(votes, 0.0)


def test_the_std_of_one_value_is_zero_and_of_none_an_error() -> None:
    assert mean_and_std([3.0]) == (3.0, 0.0)
    with pytest.raises(ValueError, match="no values"):
        mean_and_std([])


@given(st.text(max_size=8), st.integers(0, 1000), st.lists(st.integers(0, 5), min_size=1).filter(any))
def test_a_draw_lands_on_a_positive_count(seed: str, index: int, counts: list[int]) -> None:
    random = draws.uniform(seed, index)
    assert 0 <= random < 1
    assert counts[draws.choose(random, counts)] > 0


def test_draws_without_a_positive_count_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot draw"):
        draws.choose(0.5, [0, 0])


@given(st.text(max_size=8), st.integers(0, 20))
def test_a_permutation_has_every_item_once(seed: str, length: int) -> None:
    assert sorted(draws.permutation(seed, length)) == list(range(length))


def test_permutations_put_each_item_everywhere_about_equally_often() -> None:
    places = [draws.permutation(str(seed), 4).index(0) for seed in range(4000)]
    for place in range(4):
        assert places.count(place) == pytest.approx(1000, abs=4 * (4000 * 0.25 * 0.75) ** 0.5)


def test_seeds_of_different_attempts_differ() -> None:
    seeds = {draws.selection_seed(1, g, i, a) for g in range(3) for i in range(12) for a in range(1, 3)}
    assert len(seeds) == 3 * 12 * 2
