"""The simulator: the code that decides for live cells, in a world of drawn durations (docs/algorithms.md §12).

    result = simulate(scenario.settings, scenario.workload, "elastic", seed=1)

Pure: no clock, no database, no files. The same seed gives the same result; every policy of a seed meets the same
executions, drawn per group in the order of dispatch.
"""

from collections.abc import Callable

from scheduler.core.decisions import Decision
from scheduler.core.settings import Settings
from scheduler.core.snapshot import Override, Snapshot
from scheduler.simulator.core.result import Bounds, Result, Step
from scheduler.simulator.core.stuck import Stuck
from scheduler.simulator.core.workload import Workload
from scheduler.simulator.core.world import World

__all__ = ["Bounds", "Result", "Step", "Stuck", "Workload", "World", "simulate"]


def simulate(
    settings: Settings,
    workload: Workload,
    policy_kind: str,
    seed: int,
    *,
    recorded: tuple[tuple[float, ...], ...] = (),
    overrides: tuple[Override, ...] = (),
    on_decisions: Callable[[Snapshot, list[Decision]], None] | None = None,
    exhaustive: bool = False,
) -> Result:
    """One run to its end.

    `recorded` replays measured seconds of executions, a tuple per group, instead of drawing them. `on_decisions` sees
    every evaluation of `decide` with the snapshot it was made on, as the live scheduler stores them.
    Raises KeyError for an unknown policy and Stuck when the run cannot go on.
    """
    world = World(
        settings,
        workload,
        policy_kind,
        seed,
        recorded=recorded,
        overrides=overrides,
        on_decisions=on_decisions,
        exhaustive=exhaustive,
    )
    world.run()
    return world.result(seed)
