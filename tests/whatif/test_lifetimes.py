"""How long executions take when some still run: no worse than with all known, and never shorter than seen."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.simulator.whatif.lifetimes import Lifetimes

seconds = st.floats(min_value=0.1, max_value=1000.0)


def test_without_running_ones_it_is_the_recorded_distribution() -> None:
    lifetimes = Lifetimes([10.0, 20.0, 30.0, 40.0], [], 100.0)
    assert lifetimes.masses == pytest.approx([0.25] * 4)
    assert lifetimes.beyond == pytest.approx(0.0)
    random = Random(1)
    assert {lifetimes.draw(random) for _ in range(200)} == {10.0, 20.0, 30.0, 40.0}
    assert {lifetimes.draw(random, 20.0) for _ in range(200)} == {30.0, 40.0}


def test_counting_those_that_still_run_removes_the_bias_towards_short_ones() -> None:
    random = Random(3)
    true = [random.lognormvariate(4.0, 0.5) for _ in range(4000)]
    cut = sorted(true)[2800]  # the moment of looking: 30% still run
    ended, running = [t for t in true if t <= cut], [cut] * sum(t > cut for t in true)
    lifetimes = Lifetimes(ended, running, 10_000.0)
    drawn = fmean(lifetimes.draw(random) for _ in range(20_000))
    naive = fmean(ended)
    assert naive < 0.8 * fmean(true)
    assert abs(drawn - fmean(true)) < 0.35 * abs(naive - fmean(true))


@given(st.lists(seconds, max_size=20), st.lists(seconds, max_size=20), seconds, st.integers())
def test_a_draw_is_always_longer_than_what_has_passed(
    ended: list[float], running: list[float], passed: float, seed: int
) -> None:
    lifetimes = Lifetimes(ended, running, 2000.0)
    assert sum(lifetimes.masses) + lifetimes.beyond == pytest.approx(1.0)
    drawn = lifetimes.draw(Random(seed), passed)
    assert passed < drawn <= 2000.0 * (1 + 1e-6)


def test_the_same_random_numbers_are_used_whatever_is_known() -> None:
    few, many, one, other = Lifetimes([5.0], [], 50.0), Lifetimes([5.0, 9.0], [7.0], 50.0), Random(2), Random(2)
    few.draw(one)
    many.draw(other, 6.0)
    assert one.random() == other.random()
