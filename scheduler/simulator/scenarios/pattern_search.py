"""How fast could any pattern of bursts be? A random search by hindsight over what is dispatched when.

    python -m scheduler.simulator.scenarios.pattern_search [PRESET …] [--staleness 1.6] [--patterns 400] [--seed 1]

A pattern is a cycle of steps. After each of them groups are dispatched until so many batches' groups are under way,
and it says which go first: the longest, the shortest, those in the middle, or as they come. How long a group will take
is known beforehand, which no policy can; only the order within a block of groups is free, so that none is put off for
good. Batches, cells, staleness bound and capacity rule are those of `elastic+`. Patterns above the limit of mean
staleness do not count. A third of the patterns is drawn afresh, the others vary one of the best eight.

The best is tried again on seeds that the search has not used. Interrupted, it prints what it has found so far and
exits with 130.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import ClassVar

from scheduler.core import bursts
from scheduler.core.bursts import Proposal
from scheduler.core.plan import Plan
from scheduler.core.policies.elastic_plus import ElasticPlus
from scheduler.simulator.core import Result, Stuck, World, simulate
from scheduler.simulator.core.durations import Groups
from scheduler.simulator.core.workload import Drawn
from scheduler.simulator.scenarios import Scenario, load, options, preset_names

ORDERS = ("as they come", "longest", "shortest", "middle")
BLOCKS = (72, 144, 288)
MAX_CYCLE = 6
KEPT, VARIED = 30, 8
FRESH_SHARE = 0.33


@dataclass(frozen=True)
class Pattern:
    """`levels`: batches' groups under way after the k-th step of the cycle; `orders`: which are dispatched first."""

    levels: tuple[float, ...]
    orders: tuple[str, ...]
    block: int  # groups among which the order is free

    def __str__(self) -> str:
        steps = ", ".join(f"{level:.2f} {order}" for level, order in zip(self.levels, self.orders, strict=True))
        return f"[{steps}] of {self.block}"


#: Strict bursts of four batches, the same with groups ahead, and bursts of three with stragglers carried.
KNOWN = (
    Pattern((4.0, 1.0, 1.0, 1.0), (ORDERS[0],) * 4, BLOCKS[0]),
    Pattern((4.0, 1.0, 1.0, 1.4), (ORDERS[0],) * 4, BLOCKS[0]),
    Pattern((3.5, 1.0, 1.0), (ORDERS[0],) * 3, BLOCKS[0]),
)


class Foreseen:
    """Groups drawn a block ahead. `order` says which of what is left of the block is dispatched next."""

    order = ORDERS[0]

    def __init__(self, durations: Groups, block: int) -> None:
        self.durations, self.block = durations, block
        self.ahead: list[Drawn] = []

    def groups(self, first: int, count: int) -> list[Drawn]:
        return [self._next(first + place) for place in range(count)]

    def _next(self, number: int) -> Drawn:
        if not self.ahead:
            self.ahead = self.durations.groups(number, self.block)
        if self.order == ORDERS[0]:
            return self.ahead.pop(0)
        by_length = sorted(range(len(self.ahead)), key=lambda place: max(self.ahead[place].seconds))
        rank = {"longest": -1, "shortest": 0, "middle": len(by_length) // 2}[self.order]
        return self.ahead.pop(by_length[rank])


class ByPattern(ElasticPlus):
    """`elastic+` but for what is dispatched when."""

    kind: ClassVar[str] = "pattern"

    def __init__(self, pattern: Pattern, foreseen: Foreseen) -> None:
        self.pattern, self.foreseen = pattern, foreseen

    def next_burst(self, plan: Plan) -> Proposal:
        settings, version = plan.settings, plan.snapshot.version
        outstanding = bursts.outstanding_groups(plan.snapshot)
        phase = version % len(self.pattern.levels)
        wanted = round(self.pattern.levels[phase] * settings.groups_per_batch) - outstanding
        count = max(0, min(wanted, (settings.steps - version) * settings.groups_per_batch - outstanding))
        self.foreseen.order = self.pattern.orders[phase]
        return Proposal(count, "pattern", f"{count} groups")


def run(scenario: Scenario, pattern: Pattern, seed: int) -> Result:
    """Raises Stuck where a pattern leaves nothing to do within the staleness bound."""
    world = World(scenario.settings, scenario.workload, ElasticPlus.kind, seed)
    foreseen = Foreseen(world.rollout.durations, pattern.block)
    world.rollout.durations = foreseen
    world.policy = ByPattern(pattern, foreseen)
    world.run()
    return world.result(seed)


def fresh(random: Random) -> Pattern:
    length = random.randint(1, MAX_CYCLE)
    return Pattern(
        levels=tuple(random.uniform(1.0, 4.2) for _ in range(length)),
        orders=tuple(random.choice(ORDERS) for _ in range(length)),
        block=random.choice(BLOCKS),
    )


def varied(pattern: Pattern, random: Random) -> Pattern:
    """One level moved, sometimes another order or block."""
    levels, orders = list(pattern.levels), list(pattern.orders)
    place = random.randrange(len(levels))
    levels[place] = min(4.2, max(1.0, random.gauss(levels[place], 0.3)))
    if random.random() < 0.4:
        orders[random.randrange(len(orders))] = random.choice(ORDERS)
    block = random.choice(BLOCKS) if random.random() < 0.3 else pattern.block
    return replace(pattern, levels=tuple(levels), orders=tuple(orders), block=block)


def search(
    scenario: Scenario, num_patterns: int, most_stale: float, seed: int, best: list[tuple[float, Pattern]] | None = None
) -> list[tuple[float, Pattern]]:
    """The best patterns as (hours per step, pattern), fastest first. `best` is filled as they are found."""
    random, settings = Random(seed), scenario.settings
    whole = settings.steps * settings.groups_per_batch
    best = [] if best is None else best
    for number in range(num_patterns):
        if number < len(KNOWN):
            pattern = KNOWN[number]
        elif not best or random.random() < FRESH_SHARE:
            pattern = fresh(random)
        else:
            pattern = varied(random.choice(best[:VARIED])[1], random)
        try:
            result = run(scenario, pattern, seed)
        except Stuck:
            continue
        except KeyboardInterrupt:
            print(f"interrupted after {number} of {num_patterns} patterns", file=sys.stderr)
            raise
        if result.groups["consumed"] < whole or result.max_staleness > settings.max_staleness:
            continue  # a batch sealed short is no step saved
        if result.mean_staleness <= most_stale:
            best.append((result.hours_per_step, pattern))
            best.sort(key=lambda found: found[0])
            del best[KEPT:]
        if sys.stderr.isatty():
            found = f"{best[0][0]:.3f} h" if best else "none yet"
            print(f"\r{number + 1}/{num_patterns} patterns, best {found} ", end="", file=sys.stderr, flush=True)
    return best


def report(name: str, scenario: Scenario, best: Sequence[tuple[float, Pattern]], seeds: Sequence[int]) -> str:
    """The best pattern against `elastic` and `elastic+` on seeds that the search has not seen."""
    if not best:
        return f"{name:20} no pattern within the limits"
    pattern = best[0][1]
    elastic = [simulate(scenario.settings, scenario.workload, "elastic", seed) for seed in seeds]
    plus = [simulate(scenario.settings, scenario.workload, "elastic+", seed) for seed in seeds]
    found = [run(scenario, pattern, seed) for seed in seeds]

    def ratio(results: Sequence[Result]) -> float:
        return fmean(one.hours / other.hours for one, other in zip(elastic, results, strict=True))

    staleness = fmean(result.mean_staleness for result in found)
    return (
        f"{name:20} elastic / best pattern {ratio(found):.3f} at E[d] {staleness:.2f}, "
        f"elastic / elastic+ {ratio(plus):.3f}; {pattern}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    presets = f"of {', '.join(preset_names())}; all by default"
    parser.add_argument("presets", nargs="*", type=options.preset, metavar="PRESET", help=presets)
    parser.add_argument(
        "--staleness", type=options.positive, default=1.6, help="most mean staleness by launch (default 1.6)"
    )
    parser.add_argument("--patterns", type=options.count, default=400, help="to try per preset (default 400)")
    parser.add_argument("--seed", type=int, default=1, help="of the search and of the runs it makes (default 1)")
    parser.add_argument(
        "--check-seeds", type=options.count, default=4, help="further seeds for the best one (default 4)"
    )
    given = parser.parse_args(arguments)
    seeds = range(given.seed + 1, given.seed + 1 + given.check_seeds)
    name, best = "", list[tuple[float, Pattern]]()
    try:
        for name, scenario in given.presets or [(name, load(name)) for name in preset_names()]:
            best = []
            search(scenario, given.patterns, given.staleness, given.seed, best)
            if sys.stderr.isatty():
                print(file=sys.stderr)
            print(report(name, scenario, best, seeds), flush=True)
    except KeyboardInterrupt:
        if best:
            hours, pattern = min(best, key=lambda found: found[0])
            print(f"{name:20} so far {hours:.3f} h per step on seed {given.seed} alone; {pattern}", flush=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
