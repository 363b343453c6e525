"""Held-out evaluations: one at a time, on a cell that is reserved for it (docs/algorithms.md §9)."""

from __future__ import annotations

from math import log
from random import Random

from scheduler.core import snapshot as facts
from scheduler.core.decisions import StartEvaluation
from scheduler.core.settings import Settings
from scheduler.simulator.core.agenda import Agenda
from scheduler.simulator.core.parts import SimCell, SimEvaluation
from scheduler.simulator.core.roles import Roles
from scheduler.simulator.core.workload import HOUR_S, Workload


class Evaluations:
    """The one in progress, and the versions that were evaluated."""

    def __init__(self, agenda: Agenda, settings: Settings, workload: Workload, roles: Roles, random: Random) -> None:
        self.agenda, self.settings, self.workload = agenda, settings, workload
        self.roles, self.random = roles, random
        self.current: SimEvaluation | None = None
        self.evaluated: list[int] = []

    def start(self, order: StartEvaluation, cell: SimCell) -> None:
        self.current = SimEvaluation(order.number, order.version, order.num_tasks)
        self.evaluated.append(order.version)
        self.reserve(order.number, cell)

    def reserve(self, number: int, cell: SimCell) -> None:
        cell.evaluation = number
        if cell.desired_role != facts.ROLLOUT:
            self.roles.switch(cell, facts.ROLLOUT)
        self.roles.serving_changed()

    def launch(self, count: int) -> None:
        assert self.current is not None
        self.current.num_waiting -= count
        self.current.num_running += count
        workload = self.workload
        slow = workload.slowdown(min(1.0, count / self.settings.concurrency_per_cell))
        log_mean, log_sd = log(HOUR_S * workload.eval_execution_h * slow), workload.eval_log_sd
        for _ in range(count):
            self.end_one_in(self.random.lognormvariate(log_mean - log_sd**2 / 2.0, log_sd))

    def end_one_in(self, seconds: float) -> None:
        self.agenda.at(seconds, self._end_one, self.current)

    def _end_one(self, evaluation: SimEvaluation) -> None:
        if self.current is evaluation:
            evaluation.num_running -= 1
            if not evaluation.num_running and not evaluation.num_waiting:
                self.end()
            self.agenda.ask()

    def end(self) -> None:
        """Its cells serve the run again, with the newest weights."""
        for cell in self.roles.cells:
            if cell.evaluation is not None:
                cell.evaluation = None
                if cell.role == facts.ROLLOUT:
                    cell.weight_version = self.roles.training.version
        self.current = None
        self.roles.serving_changed()
