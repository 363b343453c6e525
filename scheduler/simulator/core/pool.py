"""All executions in rollout as one pool under processor sharing: work is measured on the pool's own clock.

Cells in rollout are loaded evenly (the proxy sends new calls to the least loaded cell), so every execution runs at
the same speed and one clock serves all: `progress` advances by seconds at full load, and an execution that needs s
of them ends when the clock has advanced by s. A change of load changes the clock's rate, never the queue.
"""

from __future__ import annotations

from bisect import insort_left
from collections import deque
from collections.abc import Callable
from operator import attrgetter

INFINITE = float("inf")


class Launch:
    """What executions that start at the same moment have in common. `due_s`: when they time out, by `Pool.served_s`."""

    __slots__ = ("at_s", "due_s", "progress", "running", "version", "version_sum")

    def __init__(self, at_s: float, due_s: float, progress: float, version: int, version_sum: float) -> None:
        self.at_s, self.due_s, self.progress = at_s, due_s, progress
        self.version, self.version_sum = version, version_sum
        self.running: list[Execution] = []  # newest first, and some that are done


class Execution:
    """One execution: which group it belongs to and what it will need. Written by the pool and the world.

    A finished one lets go of its group, so that both are freed without the garbage collector once nobody needs them.
    """

    __slots__ = ("done", "ends_at", "group", "launch", "mean_version", "seconds")

    launch: Launch  # these two from its start on
    ends_at: float  # on the pool's clock
    mean_version: float  # of its tokens, from its end on

    def __init__(self, group: object, seconds: float) -> None:
        self.group = group
        self.seconds = seconds
        self.done = False

    @property
    def launch_version(self) -> int:
        return self.launch.version

    @property
    def started_s(self) -> float:
        return self.launch.at_s

    @property
    def started_progress(self) -> float:
        return self.launch.progress


_end = attrgetter("ends_at")  # sorts many at once, reversed; the same order as `_latest_first`


def _latest_first(execution: Execution) -> float:
    return -execution.ends_at


class Pool:
    """Executions that run, and the two clocks they run by: progress, and time that was not held.

    `slowdown`, the time of an execution relative to full load, is a straight line in the load.
    """

    def __init__(
        self, slowdown: Callable[[float], float], concurrency: int, timeout_s: float, now_s: float = 0.0
    ) -> None:
        self.slowdown, self.concurrency, self.timeout_s = slowdown, concurrency, timeout_s
        self.num_cells = self.num_places = 0
        self.unloaded, self.per_execution = slowdown(0.0), 0.0  # slowdown of an empty cell; what each execution adds
        self.now_s = now_s
        self.progress = 0.0  # seconds at full load that an execution running all the time would have done
        self.held_s = 0.0  # time in which no cell served and calls were held
        self.stalled_s = 0.0  # time that calls still lose to moves and updates
        self.load_s = 0.0  # integral of the load of the cells in rollout, cell-seconds
        self.version = 0  # weights that calls are sampled with
        self.version_offset = 0.0  # see `version_sum`
        self.rate = 0.0  # progress per second
        self.load = 0.0  # of the cells in rollout, in cells
        self.ends: list[Execution] = []  # all that run; the last ends next, of equals the oldest
        self.launches: deque[Launch] = deque()  # oldest first
        self._next_end_s: float | None = None  # None: something has changed since it was asked for

    @property
    def num_running(self) -> int:
        return len(self.ends)

    @property
    def served_s(self) -> float:
        """Time that was not held."""
        return self.now_s - self.held_s

    @property
    def version_sum(self) -> float:
        """Integral of the version over progress: tokens come with progress."""
        return self.version * self.progress + self.version_offset

    def advance(self, now_s: float) -> None:
        """Let time pass up to `now_s`, which is no later than the next end."""
        elapsed = now_s - self.now_s
        if elapsed <= 0.0:
            return
        self.now_s = now_s
        if not self.num_cells:
            self.held_s += elapsed
            return
        if not self.ends:
            return
        self.load_s += elapsed * self.load
        if self.stalled_s:
            lost = min(self.stalled_s, elapsed)
            self.stalled_s -= lost
            elapsed -= lost
        self.progress = min(self.progress + elapsed * self.rate, self.ends[-1].ends_at)

    def set_cells(self, num_cells: int) -> None:
        """Cells that serve from now on."""
        self.num_cells, self.num_places = num_cells, num_cells * self.concurrency
        if num_cells:
            self.per_execution = (self.slowdown(1.0) - self.unloaded) / self.num_places
        self._changed()

    def renew(self, version: int) -> None:
        """Sample with other weights from now on."""
        self.version_offset += (self.version - version) * self.progress
        self.version = version
        self._next_end_s = None

    def stall(self, seconds: float, share: float) -> None:
        """`share` of the executions loses `seconds`: the pool stands still for their mean."""
        if self.ends:
            self.stalled_s += seconds * share
            self._next_end_s = None

    def start(self, executions: list[Execution]) -> None:
        """Let these executions run from now on."""
        ends, progress = self.ends, self.progress
        launch = self.launch()
        launch.running = executions[::-1]
        for execution in executions:
            execution.launch = launch
            execution.ends_at = progress + execution.seconds
        if len(executions) == 1:
            insort_left(ends, executions[0], key=_latest_first)
        else:
            ends[:0] = launch.running
            ends.sort(key=_end, reverse=True)
        self._changed()

    def launch(self) -> Launch:
        """For executions that start now."""
        launch = Launch(self.now_s, self.served_s + self.timeout_s, self.progress, self.version, self.version_sum)
        self.launches.append(launch)
        return launch

    def take_over(self, execution: Execution, done_s: float, elapsed_s: float, version: int, mean: float) -> None:
        """Go on with an execution that did `done_s` of its work in `elapsed_s`; those with the most elapsed first.

        It was launched at `version`, and `mean` is that of its tokens so far.
        """
        launch = execution.launch = Launch(
            self.now_s - elapsed_s,
            self.served_s + self.timeout_s - elapsed_s,
            self.progress - done_s,
            version,
            self.version_sum - mean * done_s,
        )
        launch.running.append(execution)
        self.launches.append(launch)
        execution.ends_at = self.progress + max(0.0, execution.seconds - done_s)
        insort_left(self.ends, execution, key=_latest_first)
        self._changed()

    def next_end_s(self) -> float:
        """When the next execution finishes or times out, if nothing changes before; infinite when none will."""
        end_s = self._next_end_s
        if end_s is None:
            end_s = INFINITE
            if self.ends and self.num_cells:
                end_s = max(self._next_end()[0], self.now_s)  # rounding must not turn the clock back
            self._next_end_s = end_s
        return end_s

    def _next_end(self) -> tuple[float, bool]:
        """When, and whether by a timeout."""
        finish_s = self.now_s + self.stalled_s + (self.ends[-1].ends_at - self.progress) / self.rate
        if finish_s < self.launches[0].due_s + self.held_s:
            return finish_s, False
        due_s = self.due_s()
        return min(due_s, finish_s), due_s <= finish_s

    def due_s(self) -> float:
        """When the next execution times out, if none finishes before."""
        while not self._late():
            self.launches.popleft()
        return self.launches[0].due_s + self.held_s

    def _late(self) -> list[Execution]:
        """Executions of the oldest launch, the next to time out last; drops the done ones at its end."""
        running = self.launches[0].running
        while running and running[-1].done:
            running.pop()
        return running

    def end(self) -> tuple[Execution, bool]:
        """Let time pass until an execution ends as `next_end_s` gave, and take it out; True: it timed out."""
        end_s, timed_out = self._next_end()
        self.advance(end_s)
        if timed_out:
            execution = self._late().pop()
            self.ends.remove(execution)
        else:
            execution = self.ends.pop()
            self.progress, self.stalled_s = execution.ends_at, 0.0
        execution.done = True
        execution.mean_version = self.mean_version(execution)
        self._changed()
        return execution, timed_out

    def mean_version(self, execution: Execution) -> float:
        """Mean weight version of the tokens that a running or just ended execution has sampled."""
        launch = execution.launch
        progress = self.progress - launch.progress
        if self.version == launch.version or progress <= 0.0:
            return float(launch.version)
        return (self.version_sum - launch.version_sum) / progress

    def rate_of(self, num_running: int) -> tuple[float, float]:
        """The clock's rate, and the load in cells, with so many executions.

        Calls beyond the cap wait, so the excess shares the rate of a full cell.
        """
        if not num_running or not self.num_cells:
            return 0.0, 0.0
        if num_running <= self.num_places:
            return 1.0 / (self.unloaded + self.per_execution * num_running), num_running / self.concurrency
        return self.num_places / (self.slowdown(1.0) * num_running), float(self.num_cells)

    def _changed(self) -> None:
        self.rate, self.load = self.rate_of(len(self.ends))
        self._next_end_s = None
