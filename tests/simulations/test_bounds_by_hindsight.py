"""What is compared with the best that hindsight finds: strict bursts, and any pattern of bursts."""

from random import Random

import pytest

from scheduler.core.simulate.durations import Durations
from scheduler.scenarios import load
from scheduler.scenarios.pattern_search import KNOWN, ORDERS, Foreseen, Pattern, main, run, search
from scheduler.scenarios.strict_bound import Watched, best_s

BASELINE = load("baseline-set")
SHORT = BASELINE.changed({"steps": 12})


@pytest.mark.parametrize("preset", ["baseline-set", "nl2repo-122b-8x4", "terminalbench-122b"])
def test_no_strict_burst_is_faster_than_with_perfect_knowledge_of_it(preset: str) -> None:
    scenario = load(preset)
    world = Watched(scenario.settings, scenario.workload, "elastic", 3)
    world.run()
    took = [later.started_s - burst.started_s for burst, later in zip(world.seen, world.seen[1:], strict=False)]
    best = [best_s(scenario, burst) for burst in world.seen[:-1]]
    assert len(took) == 11
    assert all(0.7 * took_s < best_s <= took_s * 1.001 for took_s, best_s in zip(took, best, strict=True))


@pytest.mark.parametrize("order", ORDERS)
def test_every_group_of_a_block_goes_out_once_in_whatever_order(order: str) -> None:
    drawn = Durations(SHORT.workload, 4, Random(1)).groups(0, 20)
    foreseen = Foreseen(Durations(SHORT.workload, 4, Random(1)), block=20)
    foreseen.order = order
    went = foreseen.groups(0, 7) + foreseen.groups(7, 13)
    assert sorted(group.seconds for group in went) == sorted(group.seconds for group in drawn)
    lengths = [max(group.seconds) for group in went]
    known = {"longest": sorted(lengths, reverse=True), "shortest": sorted(lengths)}
    assert lengths == known.get(order, lengths)
    assert order != ORDERS[0] or went == drawn


def test_the_strict_pattern_is_as_stale_as_strict_bursts_and_overlap_is_staler() -> None:
    strict = run(SHORT, KNOWN[0], seed=1)
    assert strict.mean_staleness == pytest.approx(1.5)
    sliding = run(SHORT, Pattern((3.9,), (ORDERS[0],), 72), seed=1)
    assert 2.0 < sliding.mean_staleness <= sliding.max_staleness <= 3


def test_a_search_keeps_the_limit_and_the_fastest_first() -> None:
    best = search(SHORT, num_patterns=12, most_stale=1.6, seed=1)
    assert [hours for hours, _ in best] == sorted(hours for hours, _ in best)
    for hours, pattern in best:
        result = run(SHORT, pattern, seed=1)
        assert (result.hours_per_step, result.mean_staleness <= 1.6) == (hours, True)
        assert result.groups["consumed"] == 12 * 18


def test_the_script_says_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    main(["baseline-set", "--patterns", "2", "--check-seeds", "1"])
    line = capsys.readouterr().out
    assert "elastic / best pattern" in line
    assert "of 72" in line
    main(["baseline-set", "--patterns", "1", "--staleness", "0.1"])
    assert "no pattern within the limits" in capsys.readouterr().out
