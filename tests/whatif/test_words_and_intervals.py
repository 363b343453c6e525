"""Figures over seeds become intervals and sentences: what differs, what does not, what it costs, what to doubt."""

from __future__ import annotations

from math import exp, sqrt
from random import Random
from typing import Any

import pytest

from scheduler.simulator.whatif.answer import Interval, answers, best_of, in_words, recommendation
from scheduler.simulator.whatif.question import CHOICES, describe, why_not_live


def point(number: int, changes: dict[str, Any], hours: list[float], cells: int = 4, staleness: float = 0.5) -> Any:
    results = [
        {"seed": seed, "hours": h, "steps": 10, "cells": cells, "cell_hours": h * cells, "E_d": staleness}
        for seed, h in enumerate(hours, start=1)
    ]
    return {"number": number, "changes": changes, "results": results}


BASE = [10.0, 11.0, 9.0, 10.5, 9.5]


def times(factor: float, noise: float = 0.002) -> list[float]:
    return [h * factor * (1 + noise * (-1) ** i) for i, h in enumerate(BASE)]


def test_an_interval_is_students_and_covers_the_truth_as_often_as_it_says() -> None:
    random, hits, tries = Random(7), 0, 4000
    for _ in range(tries):
        found = Interval.of([random.gauss(3.0, 0.5) for _ in range(5)])
        hits += found.low <= 3.0 <= found.high
    assert hits / tries == pytest.approx(0.95, abs=3 * sqrt(0.95 * 0.05 / tries))


def test_ratios_are_taken_seed_by_seed_so_that_common_noise_cancels() -> None:
    now, other = answers([point(0, {}, BASE), point(1, {"rho_min": 0.3}, times(0.9))])
    assert now.hours is not None
    assert other.ratio is not None
    assert now.hours.high / now.hours.low > 1.2
    assert other.ratio.high / other.ratio.low < 1.01
    assert other.ratio.mean == pytest.approx(0.9, rel=0.01)
    assert other.faster


def test_a_slower_setting_is_told_as_in_12_percent_longer_8_to_15() -> None:
    ratio = Interval(1.12, 1.08, 1.15)
    assert in_words(ratio, "longer", "shorter") == "12% longer [8, 15]"
    assert in_words(Interval(0.95, 0.94, 0.96), "longer", "shorter") == "5.0% shorter [4.0, 6.0]"
    assert in_words(Interval(1.01, 0.98, 1.04), "longer", "shorter") == "beyond the noise: +1.0% [−2.0, +4.0]"
    points = answers([point(0, {}, BASE), point(1, {"cells": 3}, times(1.12, 0.02), cells=3)])
    assert recommendation(points, {})[0].startswith("With K = 3 it would take 12% longer [9")
    assert points[1].words.startswith("12% longer [9")


def test_what_lies_within_the_noise_is_no_difference() -> None:
    points = answers([point(0, {}, BASE), point(1, {"j_max": 2}, times(1.005, 0.05))])
    assert not points[1].differs
    assert points[1].words.startswith("no difference beyond the noise")
    assert recommendation(points, {}) == [f"With J_max = 2 there is {points[1].words}."]


def test_a_certain_but_tiny_difference_is_not_called_one() -> None:
    points = answers([point(0, {}, BASE), point(1, {"j_max": 4}, times(0.997, 0.0))])
    assert not points[1].differs
    assert points[1].words == "no difference to speak of: −0.3%"


def test_the_fastest_with_as_many_gpus_is_recommended_and_others_are_told_with_their_price() -> None:
    points = answers(
        [
            point(0, {}, BASE),
            point(1, {"rho_min": 0.3}, times(0.95)),
            point(2, {"rho_min": 0.5}, times(0.98)),
            point(3, {"cells": 6}, times(0.8), cells=6),
            point(4, {"cells": 8}, times(0.8), cells=8),
            point(5, {"cells": 3}, times(1.1), cells=3),
        ]
    )
    best = best_of(points)
    assert best is not None
    assert best.number == 1
    said = recommendation(points, {})
    assert said[0].startswith("With rho_min = 0.3 it would take 5.0% less time")
    assert said[1].startswith("K = 6: 20% less time")
    assert said[1].endswith("for 20% more cell-hours.")
    assert said[2].startswith("K = 3: 10% longer")
    assert said[2].endswith("for 17% fewer cell-hours.")
    assert not any("K = 8" in line for line in said)  # as fast as six cells, for more


def test_doubts_are_told_older_tokens_a_poor_fit_few_groups() -> None:
    points = answers([point(0, {}, BASE), point(1, {"burst_batches": 4}, times(0.9), staleness=1.5)])
    said = " ".join(recommendation(points, {"groups": 5, "error": {"hours_per_step": -0.3}}))
    assert "E[d] 0.5 becomes 1.5" in said
    assert "30% faster than it was" in said
    assert "5 complete groups only" in said


def test_a_stuck_point_has_no_figures_and_its_reason() -> None:
    stuck = {"number": 1, "changes": {"j_max": 1}, "results": [{"seed": 1, "error": "nothing is due"}]}
    points = answers([point(0, {}, BASE), stuck, point(2, {"j_max": 2}, times(0.9))])
    assert (points[1].hours, points[1].words) == (None, "gets stuck")
    assert "With J_max = 1 the run gets stuck and does not end: nothing is due." in recommendation(points, {})


def test_an_early_answer_compares_only_seeds_that_both_have() -> None:
    half = point(1, {"j_max": 2}, times(0.9)[:2])
    points = answers([point(0, {}, BASE), half, {"number": 2, "changes": {"j_max": 3}, "results": []}])
    assert points[1].ratio is not None
    assert points[1].num_done == 2
    assert points[2].words == ""


def test_every_setting_is_either_live_or_says_why_not() -> None:
    for choice in CHOICES:
        why = why_not_live({choice.name: 1})
        assert choice.live == (why == ""), choice.name
    assert (
        describe({"rho_min": 0.25, "cells": 6, "policy_kind": "colocate"}) == "K = 6, rho_min = 0.25, policy = colocate"
    )
    assert describe({}) == "the present settings"


def test_the_mean_of_ratios_is_geometric() -> None:
    found = Interval.of_ratios([0.5, 2.0])
    assert found.mean == pytest.approx(1.0)
    assert Interval.of([1.0]) == Interval(1.0, 1.0, 1.0)
    assert exp(0.0) == found.mean
