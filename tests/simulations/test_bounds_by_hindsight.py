"""What is compared with the best that hindsight finds: strict bursts, and any pattern of bursts."""

from random import Random

import pytest

from scheduler.simulator.core import World
from scheduler.simulator.core.durations import Durations
from scheduler.simulator.scenarios import load, pattern_search, strict_bound
from scheduler.simulator.scenarios.pattern_search import KNOWN, ORDERS, Foreseen, Pattern, main, run, search
from scheduler.simulator.scenarios.strict_bound import Watch, best_s

BASELINE = load("baseline-set")
SHORT = BASELINE.changed({"steps": 12})


@pytest.mark.parametrize("preset", ["baseline-set", "nl2repo-122b-8x4", "terminalbench-122b"])
def test_no_strict_burst_is_faster_than_with_perfect_knowledge_of_it(preset: str) -> None:
    scenario = load(preset)
    watch = Watch(scenario.settings, scenario.workload)
    world = World(scenario.settings, scenario.workload, "elastic", 3, tally=watch)
    world.run()
    took = [later.started_s - burst.started_s for burst, later in zip(watch.seen, watch.seen[1:], strict=False)]
    best = [best_s(scenario, burst) for burst in watch.seen[:-1]]
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


@pytest.mark.parametrize(
    ("script", "arguments", "why"),
    [
        (pattern_search, ["nope"], "preset 'nope' is unknown; known presets: "),
        (
            pattern_search,
            ["baseline-set", "--check-seeds", "0"],
            "--check-seeds: '0' is not allowed, a whole number of",
        ),
        (pattern_search, ["baseline-set", "--patterns", "0"], "--patterns: '0' is not allowed, a whole number of"),
        (pattern_search, ["baseline-set", "--patterns", "-5"], "--patterns: '-5' is not allowed, a whole number of"),
        (pattern_search, ["baseline-set", "--staleness", "nan"], "--staleness: 'nan' is not allowed, a finite number"),
        (pattern_search, ["baseline-set", "--staleness", "0"], "--staleness: '0' is not allowed, a finite number"),
        (pattern_search, ["baseline-set", "--staleness", "-1"], "--staleness: '-1' is not allowed, a finite number"),
        (strict_bound, ["nope"], "preset 'nope' is unknown; known presets: "),
        (strict_bound, ["baseline-set", "--policy", "greedy"], "policy 'greedy' is unknown; known: elastic"),
    ],
)
def test_a_script_refuses_what_it_cannot_take(script, arguments, why, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(arguments)
    assert ended.value.code == 2
    assert why in capsys.readouterr().err.splitlines()[-1]


def test_an_interrupted_search_says_what_it_has(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    def interrupted(*args):
        runs.append(args)
        if len(runs) == 3:
            raise KeyboardInterrupt
        return run(*args)

    monkeypatch.setattr(pattern_search, "run", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["baseline-set", "nl2repo-122b-8x4"])
    assert ended.value.code == 130
    printed = capsys.readouterr()
    assert "interrupted after 2 of 400 patterns" in printed.err
    assert "so far" in printed.out
    assert "on seed 1 alone; [4.00 as they come" in printed.out
    assert len(runs) == 3


def test_an_interrupted_comparison_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: World) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(World, "run", interrupted)
    with pytest.raises(SystemExit) as ended:
        strict_bound.main(["baseline-set"])
    assert ended.value.code == 130
