"""Training: the batch in progress with its ledger of micro-steps, and the optimizer step at its end."""

from __future__ import annotations

from scheduler.core import snapshot as facts
from scheduler.core.decisions import OpenBatch
from scheduler.core.settings import Settings
from scheduler.simulator.core.agenda import Agenda
from scheduler.simulator.core.parts import SimBatch, SimCell
from scheduler.simulator.core.rollout import Rollout
from scheduler.simulator.core.tally import Tally
from scheduler.simulator.core.workload import HOUR_S, Workload


class Training:
    """`version` counts optimizer steps. `cells` is shared with whoever changes their roles; the first is the core."""

    def __init__(
        self, agenda: Agenda, settings: Settings, workload: Workload, tally: Tally, rollout: Rollout,
        cells: list[SimCell], version: int,
    ) -> None:  # fmt: skip
        self.agenda, self.settings, self.workload, self.tally = agenda, settings, workload, tally
        self.rollout, self.cells, self.version = rollout, cells, version
        self.batch: SimBatch | None = None
        self.num_computing = 0
        self.measured = facts.Work()  # up to the last step
        factor = workload.training_factor(settings.j_max)
        self.micro_step_s = HOUR_S * workload.train_cell_h * factor / settings.groups_per_batch
        self.micro_step_s /= workload.micro_steps_per_group
        #: Seconds of one micro-step, by the number of cells that compute at its beginning, its own included.
        self._micro_steps_s = [
            self.micro_step_s / workload.dp_efficiency ** (num - 1) for num in range(settings.cells + 1)
        ]

    # The batch

    def open(self, order: OpenBatch) -> None:
        assert self.batch is None
        self.batch = SimBatch(order.number, order.burst, order.version, self.agenda.now_s)

    def admit(self, number: int) -> None:
        """Group `number` brings its micro-steps."""
        batch = self.batch
        assert batch is not None
        assert not batch.sealed
        group = self.rollout.admit(number, batch)
        batch.groups.append(group)
        num = group.num_micro_steps(self.workload.micro_steps_per_group)
        batch.num_micro_steps += num
        batch.num_unclaimed += num

    def seal(self) -> None:
        assert self.batch is not None
        self.batch.sealed = True

    # Micro-steps

    def claim(self, cell: SimCell) -> float | None:
        """A micro-step for this cell, and the seconds that it takes; None: nothing is left.

        With nothing left of a sealed batch it hands in, and the batch steps when all is counted.
        """
        batch = self.batch
        if batch is None:
            return None
        if not batch.num_unclaimed:
            if batch.sealed:
                self.hand_in(cell)
                self.try_step()
            return None
        batch.num_unclaimed -= 1
        batch.num_claimed += 1
        cell.num_uncounted += 1
        cell.last_claim_s = self.agenda.now_s
        if not batch.num_unclaimed:
            self.agenda.ask()
        self.begin_micro_step(cell)
        return self._micro_steps_s[self.num_computing]

    def begin_micro_step(self, cell: SimCell) -> None:
        cell.computing = True
        self.num_computing += 1

    def end_micro_step(self, cell: SimCell) -> None:
        cell.computing = False
        self.num_computing -= 1

    def hand_in(self, cell: SimCell) -> None:
        """What this cell has computed counts from now on."""
        if self.batch is not None and cell.num_uncounted:
            self.batch.num_claimed -= cell.num_uncounted
            self.batch.num_counted += cell.num_uncounted
            cell.num_uncounted = 0
            if cell.desired_role != facts.TRAINING and (self.settings.eval_every_steps or self.agenda.awaits_moment):
                self.agenda.ask()  # an evaluation may wait for such a cell

    def lose_claims(self, cell: SimCell) -> None:
        """A satellite that dies gives back what it has not handed in; the core loses the whole sum."""
        batch = self.batch
        if batch is None:
            return
        if cell.is_core:
            batch.num_unclaimed += batch.num_claimed + batch.num_counted
            batch.num_claimed = batch.num_counted = 0
            batch.stepping = False
            for other in self.cells:
                other.num_uncounted, other.last_claim_s = 0, None
        else:
            batch.num_unclaimed += cell.num_uncounted
            batch.num_claimed -= cell.num_uncounted
            cell.num_uncounted, cell.last_claim_s = 0, None

    # The step

    def try_step(self) -> None:
        batch, core = self.batch, self.cells[0]
        if batch is None or not batch.sealed or batch.stepping or batch.num_unclaimed or batch.num_claimed:
            return
        if core.role == core.desired_role == facts.TRAINING and not core.computing:
            self.begin_step(batch, self.workload.commit_s)

    def begin_step(self, batch: SimBatch, left_s: float) -> None:
        batch.stepping = True
        self.agenda.at(left_s, self._step, batch, self.cells[0].epoch)

    def _step(self, batch: SimBatch, epoch: int) -> None:
        core = self.cells[0]
        if core.epoch != epoch or self.batch is not batch:
            batch.stepping = False
            return
        if core.role != facts.TRAINING:
            batch.stepping = False
            self.agenda.ask()
            return
        self.version += 1
        self.rollout.use_weights(self.version)
        self.rollout.consume(batch.groups)
        self.tally.stepped(batch, self.agenda.now_s)
        self.batch = None
        self.measured = self.tally.work()
        for cell in self.cells:
            cell.last_claim_s = None
            if cell.role == facts.ROLLOUT and cell.evaluation is None:
                cell.weight_version = self.version
                self.rollout.weights_updated()
        self.agenda.ask()
