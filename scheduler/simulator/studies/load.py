"""Recorded durations at full load: what executions took at the loads that they met, without what the load did to them.

A cell that holds less than its cap is faster (`Workload.slowdown`). `slowdown` reads the effect off a run's own calls;
whoever knows `alpha` and `environment_share` gives them instead, and then every duration is converted here: the
integral over its time of 1 / slowdown(load at that time).
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.simulator.core import Workload
from scheduler.simulator.studies.recorded import Recording

#: (second since the run's start, cells in rollout from then on)
Room = Sequence[tuple[float, int]]


@dataclass(frozen=True)
class Loads:
    """Load of the cells in rollout over time, as steps: `loads[i]` from `times[i]` on; None where no cell served."""

    times: tuple[float, ...]
    loads: tuple[float | None, ...]

    @classmethod
    def of(cls, recording: Recording, room: Room, concurrency: int) -> Loads:
        """From the executions that ran at each moment. Those without an end ran until now."""
        running: Counter[float] = Counter()
        for execution in recording.executions:
            if execution.launched_s is not None:
                running[execution.launched_s] += 1
                running[recording.now_s if execution.ended_s is None else execution.ended_s] -= 1
        cells = dict(room)
        num_running = num_cells = 0
        times, loads = [], []
        for time in sorted(running.keys() | cells.keys()):
            num_running += running.get(time, 0)
            num_cells = cells.get(time, num_cells)
            times.append(time)
            loads.append(num_running / (num_cells * concurrency) if num_cells else None)
        return cls(tuple(times), tuple(loads))

    def stretches(self, since_s: float, until_s: float) -> Iterator[tuple[float, float]]:
        """(seconds, load) between two moments, without the time in which no cell served."""
        first = max(0, bisect_right(self.times, since_s) - 1)
        last = bisect_right(self.times, until_s)
        ends = itertools.chain(self.times[first + 1 : last], [until_s])
        for start, end, load in zip(self.times[first:last], ends, self.loads[first:last], strict=True):
            seconds = min(end, until_s) - max(start, since_s)
            if load is not None and seconds > 0:
                yield seconds, load


def speed(workload: Workload, load: float) -> float:
    """Seconds at full load that a second does; beyond the cap calls wait for each other."""
    return 1.0 / (workload.slowdown(load) if load <= 1.0 else workload.slowdown(1.0) * load)


def at_full_load(recording: Recording, loads: Loads, workload: Workload) -> tuple[tuple[float, ...], ...]:
    """`fit.recorded_groups`, converted. Time that calls were held counts for nothing, as there."""
    by_group: dict[int, list[float]] = {}
    for execution in recording.executions:
        if execution.group in recording.complete_groups and execution.took_s:
            assert execution.launched_s is not None
            assert execution.ended_s is not None
            stretches = list(loads.stretches(execution.launched_s, execution.ended_s))
            served_s = sum(seconds for seconds, _ in stretches)
            done_s = sum(seconds * speed(workload, load) for seconds, load in stretches)
            share = done_s / served_s if served_s else 1.0
            by_group.setdefault(execution.group, []).append(execution.took_s * share)
    return tuple(tuple(by_group[number]) for number in sorted(by_group))


def mean_load(recording: Recording, loads: Loads) -> float:
    """Mean load that the executions of complete groups met, weighed by their time."""
    total_s = total = 0.0
    for execution in recording.executions:
        if execution.launched_s is not None and execution.ended_s is not None:
            for seconds, load in loads.stretches(execution.launched_s, execution.ended_s):
                total_s += seconds
                total += seconds * load
    return total / total_s if total_s else 0.0
