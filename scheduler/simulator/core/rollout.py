"""Rollout: bursts, their executions in the queue and in the pool, and the groups that come out of them."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core import snapshot as facts
from scheduler.core.decisions import DispatchBurst
from scheduler.core.settings import Settings
from scheduler.simulator.core.agenda import Agenda
from scheduler.simulator.core.durations import Groups
from scheduler.simulator.core.parts import SimBatch, SimBurst, SimGroup
from scheduler.simulator.core.pool import Execution, Pool
from scheduler.simulator.core.tally import Tally
from scheduler.simulator.core.workload import Workload


class Rollout:
    """D, L and F and what they count. Cells that serve are known by their number alone: they share the calls evenly."""

    def __init__(self, agenda: Agenda, settings: Settings, workload: Workload, durations: Groups, tally: Tally) -> None:
        self.agenda, self.settings, self.workload, self.tally = agenda, settings, workload, tally
        self.durations = durations
        self.pool = Pool(workload.slowdown, settings.concurrency_per_cell, workload.harness_timeout_s, agenda.now_s)
        self.dispatched = self.launched = self.finished = 0
        self.num_bursts = self.num_groups = self.num_void_in_a_row = 0
        self.waiting: list[Execution] = []  # newest first
        self.bursts: list[SimBurst] = []
        self.ready: dict[int, SimGroup] = {}
        self._held_until_s = -1.0  # when a cell last took over calls that none had served

    @property
    def waterlevel(self) -> int:
        return self.dispatched - self.finished

    # Executions

    def dispatch(self, order: DispatchBurst) -> None:
        burst = SimBurst(order.number, order.version, order.max_staleness, order.groups_per_batch, order.num_groups)
        self.bursts.append(burst)
        self.num_bursts += 1
        fresh: list[Execution] = []
        for drawn in self.durations.groups(self.num_groups, order.num_groups):
            group = SimGroup(self.num_groups, burst, drawn, order.executions_per_group)
            group.executions = [Execution(group, seconds) for seconds in drawn.seconds]
            self.num_groups += 1
            fresh += group.executions
        self.dispatched += len(fresh)
        self.waiting = fresh[::-1] + self.waiting
        self.tally.water(self.agenda.now_s, self.waterlevel)

    def launch(self, count: int) -> None:
        """Start the oldest `count` that wait."""
        self.pool.advance(self.agenda.now_s)
        self.launched += count
        first = len(self.waiting) - count
        executions = self.waiting[: first - 1 if first else None : -1]
        del self.waiting[first:]
        self.pool.start(executions)

    def end_next(self) -> None:
        """Let time pass until the next execution ends, and end it."""
        agenda = self.agenda
        agenda.num_events += 1
        execution, timed_out = self.pool.end()
        agenda.now_s = self.pool.now_s
        self.tally.ended(execution, timed_out, agenda.now_s)
        if self.workload.evaluation_s:
            agenda.at(self.workload.evaluation_s, self.finish, execution)
        else:
            self.finish(execution)

    def finish(self, execution: Execution) -> None:
        """F rises. `decide` is asked when a waiting execution may have a place, when a group is complete, and when the
        waterlevel passes what some cells hold.
        """
        self.finished += 1
        group: SimGroup = execution.group  # type: ignore[assignment]  # a pool does not know groups
        execution.group = None
        group.num_owed -= 1
        waterlevel = self.dispatched - self.finished
        if self.waiting or waterlevel % self.settings.concurrency_per_cell == 0:
            self.agenda.ask()
        if not group.num_owed:
            self._settle(group)
            self.agenda.ask()
        self.tally.water(self.agenda.now_s, waterlevel)

    # Groups

    def _settle(self, group: SimGroup) -> None:
        """A group whose last execution has finished is ready or void."""
        burst, now_s = group.burst, self.agenda.now_s
        group.settled_s = burst.settled_s = now_s
        burst.num_unfinished -= 1
        if sum(group.drawn.votes) >= self.workload.min_votes:
            group.state = "ready"
            burst.ready[group.id] = facts.ReadyGroup(group.id, now_s)
            self.ready[group.id] = group
            self.num_void_in_a_row = 0
        else:
            group.state = "void"
            self.num_void_in_a_row += 1
            self._drop_used_bursts()
        self.tally.settled(group)

    def admit(self, number: int, batch: SimBatch) -> SimGroup:
        """Group `number` leaves the ready ones for this batch."""
        group = self.ready.pop(number)
        del group.burst.ready[number]
        group.burst.num_admitted += 1
        group.state = "admitted"
        self.tally.admitted(group, batch)
        return group

    def consume(self, groups: Iterable[SimGroup]) -> None:
        for group in groups:
            group.state = "consumed"
            group.burst.num_admitted -= 1
        self._drop_used_bursts()

    def _drop_used_bursts(self) -> None:
        self.bursts = [burst for burst in self.bursts if burst.outstanding]

    # Calls

    def serve_with(self, num_cells: int) -> None:
        """So many cells serve from now on."""
        self.pool.advance(self.agenda.now_s)
        self.pool.set_cells(num_cells)

    def calls_moved(self, num_leaving: int) -> None:
        """Calls of so many cells, which leave together, go on at those that stay; where none stays they are held."""
        if num_staying := self.pool.num_cells:
            self.pool.stall(self.workload.move_stall_s, num_leaving / (num_leaving + num_staying))

    def cell_came(self, num_before: int) -> None:
        """One more cell serves: it takes its share of the calls, or all of those that were held."""
        if not num_before:
            self.pool.stall(self.workload.resume_stall_s, 1.0)
            self._held_until_s = self.agenda.now_s
        elif self._held_until_s != self.agenda.now_s:
            self.pool.stall(self.workload.move_stall_s, 1.0 / self.pool.num_cells)

    def cell_died(self) -> None:
        """One of the cells that serve is gone; the others take its calls."""
        if self.pool.num_cells > 1:
            self.pool.advance(self.agenda.now_s)
            self.pool.stall(self.workload.move_stall_s, 1.0 / self.pool.num_cells)

    def use_weights(self, version: int) -> None:
        self.pool.advance(self.agenda.now_s)
        self.pool.renew(version)

    def weights_updated(self) -> None:
        """One of the cells that serve took new weights, and its calls waited meanwhile."""
        if self.pool.num_cells:
            self.pool.stall(self.workload.update_stall_s, 1.0 / self.pool.num_cells)
