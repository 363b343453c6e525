"""What an event of the simulator costs, against loops over a heap of events that stand for nothing.

The heap alone: a loop that pops the next event, (time, sequence number, kind, payload), and pushes a successor, its
delays drawn beforehand. The bare loop: it pops, calls what the event's kind says, and this draws a delay and pushes.
Both hold as many pending events as the simulation does on average over its events, and handle as many as one run has.
Runs and loops alternate in one process; ratios are medians over the pairs. Times are CPU seconds.
"""

import gc
import sys
import time
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from random import Random
from statistics import median

from gyreweb.bench.figures import Figure
from scheduler.core.policies import REGISTRY
from scheduler.simulator.core import World
from scheduler.simulator.scenarios import Scenario, load

PRESET = "baseline-set"
POLICY = "elastic"
REPEATS = 9


def run(preset: str = PRESET, repeats: int = REPEATS) -> Mapping[str, Figure]:
    """Figures of `manage.py bench simulate`."""
    scenario = load(preset)
    pending = _mean_pending(scenario)
    print(f"{preset}: {scenario.settings.steps} steps, {pending} events pending on average", file=sys.stderr)
    runs_s: list[float] = []
    rates: dict[str, list[float]] = {"simulation": [], "bare loop": [], "heap alone": []}
    for seed in range(1, repeats + 1):
        world = World(scenario.settings, scenario.workload, POLICY, seed)
        runs_s.append(_cpu_s(world.run))
        num = world.num_events
        rates["simulation"].append(num / runs_s[-1])
        rates["bare loop"].append(num / _cpu_s(_bare_loop(pending, num, seed)))
        rates["heap alone"].append(num / _cpu_s(_heap_alone(pending, num, seed)))
    figures = {
        "events_per_s": _against(rates, "simulation", "heap alone"),
        "events_per_s_bare_loop": _against(rates, "simulation", "bare loop"),
        "run_cpu_s": Figure(median(runs_s), "s"),
        "num_events": Figure(world.num_events, "events"),
        "num_evaluations": Figure(world.num_evaluations, "evaluations"),
        "pending_events": Figure(pending, "events"),
    }
    for policy_kind in sorted(set(REGISTRY) - {POLICY}):
        worlds = [World(scenario.settings, scenario.workload, policy_kind, seed) for seed in range(1, 4)]
        figures[f"run_cpu_s_{policy_kind}"] = Figure(median(_cpu_s(world.run) for world in worlds), "s")
    return figures


def _against(rates: Mapping[str, list[float]], mine: str, other: str) -> Figure:
    ratio = median(one / two for one, two in zip(rates[mine], rates[other], strict=True))
    return Figure(median(rates[mine]), "events/s", median(rates[other]), ratio)


def _mean_pending(scenario: Scenario) -> int:
    """Ends of running executions and events on the heap, averaged over the events of one run."""
    total = last = 0

    def note(_snapshot: object, _decisions: object) -> None:
        nonlocal total, last
        total += (world.num_events - last) * (world.pool.num_running + len(world.heap))
        last = world.num_events

    world = World(scenario.settings, scenario.workload, POLICY, 1, on_decisions=note)
    world.run()
    return max(1, round(total / last))


def _bare_loop(num_pending: int, num_events: int, seed: int) -> Callable[[], None]:
    random = Random(seed)
    heap = [(random.expovariate(1.0), number, number % 2, ()) for number in range(num_pending)]
    heapify(heap)
    seq = num_pending

    def again(now: float, kind: int, payload: tuple[object, ...]) -> None:
        nonlocal seq
        seq += 1
        heappush(heap, (now + random.expovariate(1.0), seq, kind, payload))  # type: ignore[misc]

    actions = (again, again)

    def loop() -> None:
        for _ in range(num_events):
            now, _, kind, payload = heappop(heap)
            actions[kind](now, kind, payload)

    return loop


def _heap_alone(num_pending: int, num_events: int, seed: int) -> Callable[[], None]:
    random = Random(seed)
    heap = [(random.expovariate(1.0), number, number % 2, ()) for number in range(num_pending)]
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
    gc.collect()  # so that no loop pays for the garbage of the one before it
    started = time.process_time()
    work()
    return time.process_time() - started
