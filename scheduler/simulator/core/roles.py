"""Roles: cells serve, switch, compute, are drained and start again (docs/algorithms.md §10)."""

from __future__ import annotations

from scheduler.core import snapshot as facts
from scheduler.simulator.core.agenda import Agenda
from scheduler.simulator.core.parts import SimCell
from scheduler.simulator.core.rollout import Rollout
from scheduler.simulator.core.tally import Tally
from scheduler.simulator.core.training import Training
from scheduler.simulator.core.workload import Workload


class Roles:
    """What each cell does over time. An event of a cell names the epoch that it belongs to, and is void in the next."""

    def __init__(
        self, agenda: Agenda, workload: Workload, tally: Tally, cells: list[SimCell], rollout: Rollout,
        training: Training,
    ) -> None:  # fmt: skip
        self.agenda, self.workload, self.tally = agenda, workload, tally
        self.cells, self.rollout, self.training = cells, rollout, training

    def serving_changed(self) -> None:
        self.rollout.serve_with(sum(cell.serves for cell in self.cells))

    # Switching

    def switch(self, cell: SimCell, role: str) -> None:
        """Rollout, training or stopped: at once, or after the micro-step that it computes."""
        cell.desired_role = role
        if not cell.computing:
            self.begin_switch(cell)
        self.serving_changed()

    def begin_switch(self, cell: SimCell) -> None:
        if cell.desired_role == facts.STOPPED:
            self._stop(cell)
        elif cell.role != facts.SWITCHING:
            self.training.hand_in(cell)
            cell.become(facts.SWITCHING, self.agenda.now_s)
            to_training = cell.desired_role == facts.TRAINING
            takes_s = self.workload.to_training_s if to_training else self.workload.to_rollout_s
            self.arrive_in(takes_s, cell, takes_s)

    def arrive_in(self, left_s: float, cell: SimCell, whole_s: float) -> None:
        """The cell takes its desired role in `left_s` seconds, after a switch of `whole_s`."""
        self.agenda.at(left_s, self._end_switch, cell, cell.epoch, whole_s)

    def _end_switch(self, cell: SimCell, epoch: int, took_s: float) -> None:
        if cell.epoch != epoch:
            return
        num_before = self.rollout.pool.num_cells
        cell.become(cell.desired_role, self.agenda.now_s)
        self.agenda.ask()
        if cell.role == facts.TRAINING:
            cell.to_training_s = took_s
            self.tally.switches["to_training"] += 1
            self.train(cell)
            return
        cell.to_rollout_s = took_s
        cell.weight_version = self.training.version
        self.tally.switches["to_rollout"] += 1
        self.serving_changed()
        if cell.serves:
            self.rollout.cell_came(num_before)

    # Stopping and starting

    def _stop(self, cell: SimCell) -> None:
        self.training.hand_in(cell)
        if cell.is_core:
            self.training.lose_claims(cell)  # the sum of the batch in progress stood in its memory
        cell.epoch += 1
        cell.become(facts.STOPPED, self.agenda.now_s)
        self.agenda.ask()

    def start(self, cell: SimCell) -> None:
        """A drained cell starts as one that was lost does."""
        cell.desired_role = facts.ROLLOUT
        cell.become(facts.STARTING, self.agenda.now_s)
        self.arrive_in(self.workload.repair_s, cell, self.workload.to_rollout_s)

    def lose(self, cell: SimCell) -> None:
        """A cell dies: its claims return, and with the core all that its batch had counted. It comes back repaired."""
        if cell.serves:
            self.rollout.cell_died()
        self.training.lose_claims(cell)
        if cell.computing:
            self.training.end_micro_step(cell)
        cell.epoch += 1
        cell.become(facts.LOST, self.agenda.now_s)
        cell.desired_role, cell.evaluation = facts.ROLLOUT, None
        self.serving_changed()
        self.wake_trainers()
        self.agenda.ask()
        self.arrive_in(self.workload.repair_s, cell, self.workload.to_rollout_s)

    # Computing

    def wake_trainers(self) -> None:
        for cell in self.cells:
            if cell.role == facts.TRAINING and not cell.computing:
                self.train(cell)

    def train(self, cell: SimCell) -> None:
        if cell.computing or cell.role != facts.TRAINING or cell.desired_role != facts.TRAINING:
            return
        seconds = self.training.claim(cell)
        if seconds is not None:
            self.compute_for(seconds, cell, seconds)

    def compute_for(self, left_s: float, cell: SimCell, whole_s: float) -> None:
        """The micro-step that the cell has begun takes `left_s` more of `whole_s` seconds."""
        self.agenda.at(left_s, self._computed, cell, cell.epoch, whole_s)

    def _computed(self, cell: SimCell, epoch: int, seconds: float) -> None:
        if cell.epoch != epoch:
            return
        self.training.end_micro_step(cell)
        self.tally.computed(seconds)
        if cell.desired_role == facts.TRAINING:
            self.train(cell)
            batch = self.training.batch
            if not cell.computing and (batch is None or not batch.sealed):
                self.agenda.ask()
        else:
            self.begin_switch(cell)
            self.training.try_step()
