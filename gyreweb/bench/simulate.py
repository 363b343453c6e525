"""What an event of the simulator costs, against a loop that does nothing but pop and push events.

The bare loop holds as many pending events as the simulation does on average, in tuples of the same shape, and handles
as many as one run has. Runs and loops alternate; the ratio is the median over pairs. Times are CPU seconds.
"""

import sys
import time
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from random import Random
from statistics import median

from gyreweb.bench.figures import Figure
from scheduler.core.policies import REGISTRY
from scheduler.core.simulate import World
from scheduler.scenarios import Scenario, load

PRESET = "baseline-set"
POLICY = "elastic"
REPEATS = 9


def run(preset: str = PRESET, repeats: int = REPEATS) -> Mapping[str, Figure]:
    """Figures of `manage.py bench simulate`."""
    scenario = load(preset)
    pending = _mean_pending(scenario)
    print(f"{preset}: {scenario.settings.steps} steps, {pending} events pending on average", file=sys.stderr)
    runs_s, simulated, bare = [], [], []
    for seed in range(1, repeats + 1):
        world = World(scenario.settings, scenario.workload, POLICY, seed)
        runs_s.append(_cpu_s(world.run))
        simulated.append(world.num_events / runs_s[-1])
        loop = _bare_loop(pending, world.num_events, seed)
        bare.append(world.num_events / _cpu_s(loop))
    figures = {
        "events_per_s": Figure(
            median(simulated),
            "events/s",
            median(bare),
            median(mine / loop for mine, loop in zip(simulated, bare, strict=True)),
        ),
        "run_cpu_s": Figure(median(runs_s), "s"),
        "num_events": Figure(world.num_events, "events"),
        "num_evaluations": Figure(world.num_evaluations, "evaluations"),
        "pending_events": Figure(pending, "events"),
    }
    for policy_kind in sorted(set(REGISTRY) - {POLICY}):
        worlds = [World(scenario.settings, scenario.workload, policy_kind, seed) for seed in range(1, 4)]
        figures[f"run_cpu_s_{policy_kind}"] = Figure(median(_cpu_s(world.run) for world in worlds), "s")
    return figures


def _mean_pending(scenario: Scenario) -> int:
    """Ends of running executions and events on the heap, averaged over the evaluations of `decide` of one run."""
    seen: list[int] = []
    world = World(
        scenario.settings,
        scenario.workload,
        POLICY,
        1,
        on_decisions=lambda *_: seen.append(world.pool.num_running + len(world.heap)),
    )
    world.run()
    return max(1, round(sum(seen) / len(seen)))


def _bare_loop(num_pending: int, num_events: int, seed: int) -> Callable[[], None]:
    """Pop the next event, push another: (time, sequence number, kind, payload)."""
    random = Random(seed)
    heap = [(random.expovariate(1.0), number, 0, ()) for number in range(num_pending)]
    heapify(heap)
    delays = [random.expovariate(1.0) for _ in range(num_events)]

    def loop() -> None:
        seq = num_pending
        for delay in delays:
            now, _, kind, payload = heappop(heap)
            seq += 1
            heappush(heap, (now + delay, seq, kind, payload))

    return loop


def _cpu_s(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
