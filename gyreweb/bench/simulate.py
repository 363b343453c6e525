"""What a simulated run costs: seconds of CPU for a whole run of each policy, and events per second of one of them."""

import gc
import sys
import time
from collections.abc import Mapping
from statistics import median

from gyreweb.bench.figures import Figure
from scheduler.core.policies import REGISTRY
from scheduler.simulator.core import World
from scheduler.simulator.scenarios import load

PRESET = "baseline-set"
POLICY = "elastic"
REPEATS = 9
OTHER_REPEATS = 3


def run(preset: str = PRESET, repeats: int = REPEATS) -> Mapping[str, Figure]:
    """Figures of `manage.py bench simulate`."""
    scenario = load(preset)
    print(f"{preset}: {scenario.settings.steps} steps", file=sys.stderr)
    worlds = [World(scenario.settings, scenario.workload, POLICY, seed) for seed in range(1, repeats + 1)]
    seconds = [_cpu_s(world) for world in worlds]
    rates = [world.agenda.num_events / run_s for world, run_s in zip(worlds, seconds, strict=True)]
    figures = {
        "events_per_s": Figure(median(rates), "events/s"),
        "run_cpu_s": Figure(median(seconds), "s"),
        "num_events": Figure(worlds[-1].agenda.num_events, "events"),
        "num_evaluations": Figure(worlds[-1].num_evaluations, "evaluations"),
    }
    for policy_kind in sorted(set(REGISTRY) - {POLICY}):
        worlds = [World(scenario.settings, scenario.workload, policy_kind, s) for s in range(1, OTHER_REPEATS + 1)]
        figures[f"run_cpu_s_{policy_kind}"] = Figure(median(map(_cpu_s, worlds)), "s")
    return figures


def _cpu_s(world: World) -> float:
    gc.collect()  # so that nobody pays for what the one before left behind
    started = time.process_time()
    world.run()
    return time.process_time() - started
