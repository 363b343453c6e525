"""All executions in rollout as one pool under processor sharing: work is measured on the pool's own clock.

Cells in rollout are loaded evenly (the proxy sends new calls to the least loaded cell), so every execution runs at
the same speed and one clock serves all: `progress` advances by seconds at full load, and an execution that needs s
of them ends when the clock has advanced by s. A change of load changes the clock's rate, never the queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from scheduler.core.simulate.workload import Draw

INFINITE = float("inf")


class Execution:
    """One execution: which group it belongs to and what it will need. Written by the pool and the world."""

    __slots__ = ("done", "draw", "group", "launch_version", "started_progress", "started_s", "version_sum")

    launch_version: int  # these four from its start on
    started_s: float
    started_progress: float
    version_sum: float  # the pool's at its start; from its end on the mean version of its tokens

    def __init__(self, group: object, draw: Draw) -> None:
        self.group, self.draw, self.done = group, draw, False


class Pool:
    """Executions that run, and the two clocks they run by: progress, and time that was not held."""

    def __init__(self, slowdown: Callable[[float], float], concurrency: int, timeout_s: float) -> None:
        self.slowdown, self.concurrency, self.timeout_s = slowdown, concurrency, timeout_s
        self.num_cells = 0
        self.num_running = 0
        self.now_s = 0.0
        self.progress = 0.0  # seconds at full load done so far by whoever has run from the start
        self.served_s = 0.0  # time that was not held
        self.stalled_s = 0.0  # time that calls still lose to moves and updates
        self.work_done_s = 0.0  # execution-seconds at full load
        self.load_s = 0.0  # integral of the load of the cells in rollout, cell-seconds
        self.version = 0  # weights that calls are sampled with
        self.version_sum = 0.0  # integral of the version over progress: tokens come with progress
        self.rate = 0.0  # progress per second
        self.rates: dict[int, float] = {}  # by number of executions, under the present number of cells
        self.ends: list[tuple[float, int, Execution]] = []  # a heap
        self.timeouts: deque[tuple[float, Execution]] = deque()
        self.seq = 0
        self._rates: dict[int, dict[int, float]] = {}  # by number of cells

    def advance(self, now_s: float) -> None:
        """Let time pass up to `now_s`, which is no later than the next end."""
        elapsed = now_s - self.now_s
        if elapsed <= 0.0:
            return
        self.now_s = now_s
        num_cells, num_running = self.num_cells, self.num_running
        if not num_cells:
            return
        self.served_s += elapsed
        if not num_running:
            return
        load = num_running / self.concurrency
        self.load_s += elapsed * (load if load < num_cells else num_cells)
        if self.stalled_s:
            lost = min(self.stalled_s, elapsed)
            self.stalled_s -= lost
            elapsed -= lost
        done = elapsed * self.rate
        self.progress += done
        self.version_sum += done * self.version
        self.work_done_s += done * num_running

    def set_cells(self, num_cells: int) -> None:
        """Cells that serve from now on."""
        self.num_cells = num_cells
        self.rates = self._rates.setdefault(num_cells, {})
        self._changed()

    def stall(self, seconds: float, share: float) -> None:
        """`share` of the executions loses `seconds`: the pool stands still for their mean."""
        if self.num_running:
            self.stalled_s += seconds * share

    def start(self, executions: list[Execution]) -> None:
        """Let these executions run from now on."""
        ends, timeouts, seq = self.ends, self.timeouts, self.seq
        now_s, progress, version, version_sum = self.now_s, self.progress, self.version, self.version_sum
        timeout_at = self.served_s + self.timeout_s
        for execution in executions:
            seq += 1
            execution.started_s, execution.started_progress = now_s, progress
            execution.launch_version, execution.version_sum = version, version_sum
            heappush(ends, (progress + execution.draw[0], seq, execution))
            timeouts.append((timeout_at, execution))
        self.seq = seq
        self.num_running += len(executions)
        self._changed()

    def take_over(self, execution: Execution, done_s: float, elapsed_s: float, mean_version: float) -> None:
        """Go on with an execution that did `done_s` of its work in `elapsed_s`; those with the most elapsed first."""
        self.seq += 1
        execution.started_s, execution.started_progress = self.now_s - elapsed_s, self.progress - done_s
        execution.version_sum = self.version_sum - mean_version * done_s
        heappush(self.ends, (self.progress + execution.draw.seconds - done_s, self.seq, execution))
        self.timeouts.append((self.served_s + self.timeout_s - elapsed_s, execution))
        self.num_running += 1
        self._changed()

    def next_end_s(self) -> float:
        """When the next execution finishes or times out, if nothing changes before; infinite when none will."""
        if not self.num_running or not self.num_cells:
            return INFINITE
        ends, timeouts = self.ends, self.timeouts
        while ends[0][2].done:
            heappop(ends)
        while timeouts[0][1].done:
            timeouts.popleft()
        finish_s = self.now_s + self.stalled_s + (ends[0][0] - self.progress) / self.rate
        timeout_s = self.now_s + timeouts[0][0] - self.served_s
        end_s = finish_s if finish_s < timeout_s else timeout_s
        return end_s if end_s > self.now_s else self.now_s  # rounding must not turn the clock back

    def end(self) -> tuple[Execution, bool]:
        """Take out the execution whose end `next_end_s` gave, the pool being there; True: it timed out."""
        ends, timeouts = self.ends, self.timeouts
        timed_out = timeouts[0][0] - self.served_s <= self.stalled_s + (ends[0][0] - self.progress) / self.rate
        execution = timeouts.popleft()[1] if timed_out else heappop(ends)[2]
        execution.done = True
        self.num_running -= 1
        self._changed()
        return execution, timed_out

    def mean_version(self, execution: Execution) -> float:
        """Mean weight version of the tokens that a running or just ended execution has sampled."""
        progress = self.progress - execution.started_progress
        if progress <= 0.0:
            return float(execution.launch_version)
        return (self.version_sum - execution.version_sum) / progress

    def rate_of(self, num_running: int) -> float:
        """The clock's rate, from the load. Calls beyond the cap wait, so the excess shares the rate of a full cell."""
        rate = 0.0
        if self.num_cells and num_running:
            load = num_running / (self.num_cells * self.concurrency)
            rate = 1.0 / self.slowdown(load) if load <= 1.0 else 1.0 / (self.slowdown(1.0) * load)
        self.rates[num_running] = rate
        return rate

    def _changed(self) -> None:
        known = self.rates.get(self.num_running)
        self.rate = self.rate_of(self.num_running) if known is None else known
