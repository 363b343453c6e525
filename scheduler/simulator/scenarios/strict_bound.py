"""How fast could strict bursts be at best? Training by hindsight over the executions of a simulated run.

    python -m scheduler.simulator.scenarios.strict_bound [PRESET …] [--policy elastic] [--seed 1]

For each burst of a run: the groups become ready, and the waterlevel falls, exactly as they did; at each moment every
cell that the waterlevel does not need trains whatever is there. Batches follow one another, each at the weights of the
one before. No schedule that dispatches a burst when the last is used up, and keeps the capacity rule, beats that by
moving cells; what is left to win lies in other bursts (docs/elastic-plus.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from statistics import fmean

from scheduler.core.settings import Settings
from scheduler.simulator.core import Workload, World
from scheduler.simulator.core.parts import SimGroup
from scheduler.simulator.core.tally import Tally
from scheduler.simulator.scenarios import Scenario, load, options, preset_names


@dataclass
class Seen:
    """One burst as it went: seconds since its dispatch."""

    started_s: float
    ready_s: list[float] = field(default_factory=list)
    water: list[tuple[float, int]] = field(default_factory=list)  # (second, W from then on)
    ended_s: float = inf


class Watch(Tally):
    """Notes when bursts start, when groups become ready, and how the waterlevel falls."""

    def __init__(self, settings: Settings, workload: Workload) -> None:
        super().__init__(settings, workload)
        self.seen: list[Seen] = []
        self._waterlevel = 0

    def water(self, now_s: float, waterlevel: int) -> None:
        super().water(now_s, waterlevel)
        if waterlevel > self._waterlevel:  # a burst was dispatched
            if self.seen:
                self.seen[-1].ended_s = now_s - self.seen[-1].started_s
            self.seen.append(Seen(now_s))
        burst, self._waterlevel = self.seen[-1], waterlevel
        burst.water.append((now_s - burst.started_s, waterlevel))

    def settled(self, group: SimGroup) -> None:
        super().settled(group)
        self.seen[-1].ready_s.append(group.settled_s - self.seen[-1].started_s)


def best_s(scenario: Scenario, burst: Seen) -> float:
    """Seconds of the burst if training had used every cell that rollout did not need, with perfect knowledge."""
    settings, workload = scenario.settings, scenario.workload
    size, efficiency = settings.groups_per_batch, workload.dp_efficiency
    group_s = 3600.0 * workload.train_cell_h * workload.training_factor(settings.j_max) / size
    ready_s, water = sorted(burst.ready_s), burst.water
    now_s = done_s = 0.0
    num_ready = place = 0
    for batch in range(ceil(len(ready_s) / size)):
        wanted = min((batch + 1) * size, len(ready_s))
        while done_s < wanted * group_s - 1e-6:
            while place + 1 < len(water) and water[place + 1][0] <= now_s:
                place += 1
            while num_ready < len(ready_s) and ready_s[num_ready] <= now_s:
                num_ready += 1
            waterlevel = water[place][1]
            needed = max(1, ceil(waterlevel / settings.concurrency_per_cell)) if waterlevel else 0
            trainers = max(0, settings.cells - needed)
            rate = trainers * efficiency ** (trainers - 1) if trainers else 0.0
            until_s = min(
                water[place + 1][0] if place + 1 < len(water) else inf,
                ready_s[num_ready] if num_ready < len(ready_s) else inf,
            )
            there_s = min(num_ready, wanted) * group_s
            if rate and done_s < there_s:
                all_trained_s = now_s + (there_s - done_s) / rate
                done_s = there_s if all_trained_s <= until_s else done_s + rate * (until_s - now_s)
                until_s = min(until_s, all_trained_s)
            now_s = until_s
        now_s += workload.commit_s
    return now_s


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    presets = f"of {', '.join(preset_names())}; all by default"
    parser.add_argument("presets", nargs="*", type=options.preset, metavar="PRESET", help=presets)
    parser.add_argument(
        "--policy",
        type=options.policies,
        default=["elastic"],
        help="policies that keep bursts apart, separated by commas (default elastic)",
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    try:
        compare(given.presets or [(name, load(name)) for name in preset_names()], given.policy, given.seed)
    except KeyboardInterrupt:
        sys.exit(130)


def compare(presets: Sequence[tuple[str, Scenario]], policies: Sequence[str], seed: int) -> None:
    """A line per preset and policy."""
    for name, scenario in presets:
        for policy in policies:
            watch = Watch(scenario.settings, scenario.workload)
            world = World(scenario.settings, scenario.workload, policy, seed, tally=watch)
            world.run()
            watch.seen[-1].ended_s = world.now_s - watch.seen[-1].started_s
            took, best = (
                fmean(burst.ended_s for burst in watch.seen),
                fmean(best_s(scenario, b) for b in watch.seen),
            )
            print(
                f"{name:20} {policy:9} burst {took / 3600:.3f} h, best {best / 3600:.3f} h, {took / best - 1:.1%} above"
            )


if __name__ == "__main__":
    main()
