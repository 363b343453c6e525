"""Faults: cells that die at random."""

from __future__ import annotations

from random import Random

from scheduler.core import snapshot as facts
from scheduler.simulator.core.agenda import Agenda
from scheduler.simulator.core.roles import Roles
from scheduler.simulator.core.stuck import MAX_FAILURES_PER_CELL, Stuck, why_failing
from scheduler.simulator.core.tally import Tally
from scheduler.simulator.core.workload import HOUR_S, Workload


class Faults:
    """`cell_failures_per_h` of the workload, for each cell. Raises Stuck when no step can end any more."""

    def __init__(self, agenda: Agenda, workload: Workload, tally: Tally, roles: Roles, random: Random) -> None:
        self.agenda, self.workload, self.tally = agenda, workload, tally
        self.roles, self.random = roles, random
        if workload.cell_failures_per_h:
            for index in range(len(roles.cells)):
                self._plan(index)

    def _plan(self, index: int) -> None:
        self.agenda.at(HOUR_S * self.random.expovariate(self.workload.cell_failures_per_h), self.fail, index)

    def fail(self, index: int) -> None:
        """One more failure since the last step, also of a cell that is lost already."""
        self._plan(index)
        self.tally.num_failures_since_step += 1
        if self.tally.num_failures_since_step > MAX_FAILURES_PER_CELL * len(self.roles.cells):
            raise Stuck(why_failing(self.workload))
        cell = self.roles.cells[index]
        if cell.role not in (facts.LOST, facts.STARTING, facts.STOPPED):
            self.tally.num_failures += 1
            self.roles.lose(cell)
