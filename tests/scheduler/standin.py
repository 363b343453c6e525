"""A machine without engines: cells and workers that write exactly the rows the real ones write.

Every write goes through the product's own code (leases, finish_execution, the ledger, the cell agent's SQL); only
model, sandbox and gradient are absent. Time passes in rounds, so that tests are deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import uuid4

import psycopg

from agents.actions.finish_execution import finish_execution
from agents.core.outcome import Reason, Status, Verdict
from agents.executions.leases import lease_queued
from agents.models import Execution, Project, Run, Task, TaskSet
from scheduler.models import Cell
from tests.processor.records import DONE, record_conversation
from trainers import ledger, publication
from trainers.cell import cell_row
from trainers.ledger import CellEpoch

KINDS = ("append", "copy", "read", "write")


def make_run(state: str = Run.State.QUEUED, **settings: Any) -> Run:
    """A run on a task set with four kinds, eight training tasks and four held-out ones of each."""
    from scheduler.config import preset

    project, _ = Project.objects.get_or_create(slug="lab", defaults={"name": "Lab"})
    task_set, new = TaskSet.objects.get_or_create(name="four-kinds", digest="0" * 64, defaults={"path": "/nowhere"})
    if new:
        Task.objects.bulk_create(
            Task(
                task_set=task_set,
                name=f"{split}-{number:02d}-{kind}",
                split=split,
                kind=kind,
                path="/nowhere",
                digest="0",
                config={},
            )
            for split, count in ((Task.Split.TRAIN, 8), (Task.Split.HELDOUT, 4))
            for number in range(count)
            for kind in KINDS
        )
    small = {
        "concurrency_per_cell": 16,
        "groups_per_batch": 4,
        "executions_per_group": 2,
        "steps": 3,
        "eval_every_steps": 2,
        "eval_tasks": 4,
        "supply_hold_s": 0,
    }
    config = preset("quickstart", **{**small, **settings}).model_dump(mode="json")
    return Run.objects.create(
        project=project,
        task_set=task_set,
        name="stand-in",
        state=state,
        config=config,
        seed=config["seed"],
        policy_kind=config["policy_kind"],
    )


@dataclass
class StandIn:
    """`finish_share`: chance that a running execution ends in a round."""

    run: Run
    connection: psycopg.Connection[Any]
    random: Random = field(default_factory=lambda: Random(1))
    finish_share: float = 0.5
    unresolved_share: float = 0.0
    chunk: int = 1
    dead: set[int] = field(default_factory=set)  # cells whose process is gone
    broken: set[int] = field(default_factory=set)  # cells that cannot be launched
    claims: dict[int, list[Any]] = field(default_factory=dict)
    num_launches: int = 0

    def round(self) -> None:
        for cell in Cell.objects.filter(run=self.run).order_by("index"):
            if cell.index not in self.dead:
                self._live(cell)
        for cell in Cell.objects.filter(run=self.run).order_by("-is_core"):
            if cell.role == Cell.Role.TRAINING and cell.index not in self.dead:
                self._train(cell)
        self._work()

    def launch(self) -> None:
        """What launch_cells does, for cells without a live process: a new epoch, then rollout."""
        for cell in Cell.objects.filter(run=self.run).exclude(desired_role=Cell.Role.STOPPED):
            if cell.role in (Cell.Role.STARTING, Cell.Role.LOST, Cell.Role.STOPPED) or cell.index in self.dead:
                self.num_launches += 1
                if cell.index in self.broken:
                    Cell.objects.filter(pk=cell.pk).update(role=Cell.Role.STARTING, error="no memory for the engine")
                    continue
                self.dead.discard(cell.index)
                self.claims.pop(cell.index, None)
                Cell.objects.filter(pk=cell.pk).update(epoch=cell.epoch + 1, role=Cell.Role.STARTING, error="")
                who = self._who(cell, cell.epoch + 1)
                if cell.is_core:
                    ledger.reset_open_batch(self.connection, who)
                self._beat(who)
                self._serve(who)

    def die(self, index: int) -> None:
        self.dead.add(index)
        self.connection.execute(
            "UPDATE scheduler_cell SET heartbeat_at = now() - interval '1 hour' WHERE run_id = %s AND index = %s",
            (self.run.pk, index),
        )

    # Cells

    def _who(self, cell: Cell, epoch: int | None = None) -> CellEpoch:
        return CellEpoch(self.run.pk, cell.index, cell.epoch if epoch is None else epoch)

    def _beat(self, who: CellEpoch) -> None:
        cell_row.beat(self.connection, who, 0, 0, 0.0)

    def _serve(self, who: CellEpoch) -> None:
        version = Run.objects.get(pk=self.run.pk).version
        cell_row.report(self.connection, who, role="rollout", weight_version=version, notify=True)

    def _live(self, cell: Cell) -> None:
        """One poll of a cell agent: heartbeat, follow the wish, take new weights."""
        who = self._who(cell)
        if cell.role in (Cell.Role.STARTING, Cell.Role.LOST, Cell.Role.STOPPED):
            return
        self._beat(who)
        if cell.desired_role == Cell.Role.STOPPED:
            cell_row.report(self.connection, who, role="stopped", notify=True)
        elif cell.role == Cell.Role.SWITCHING:
            if cell.desired_role == Cell.Role.ROLLOUT:
                self._serve(who)
            else:
                cell_row.report(self.connection, who, role=cell.desired_role, notify=True)
            cell_row.finish_role_change(self.connection, who, [("drain", 0.1)], to_role=cell.desired_role)
        elif cell.role != cell.desired_role:
            if cell.role == Cell.Role.TRAINING:
                self._hand_in(cell)
            cell_row.report(self.connection, who, role="switching", phase="drain", notify=True)
        elif cell.role == Cell.Role.ROLLOUT and cell.evaluation is None:
            version = Run.objects.get(pk=self.run.pk).version
            if cell.weight_version != version:
                cell_row.report(self.connection, who, weight_version=version)

    # Training

    def _train(self, cell: Cell) -> None:
        """Claim a chunk; hand in when a sealed batch has nothing left; the core steps when all is counted."""
        batch = ledger.open_batch(self.connection, self.run.pk)
        if batch is None:
            return
        who = self._who(cell)
        claims = ledger.claim(self.connection, who, batch, self.chunk)
        if claims and cell.is_core:
            ledger.count_own(self.connection, who, batch, uuid4(), claims)
        elif claims:
            self.claims.setdefault(cell.index, []).extend(claims)
        elif batch.sealed:
            self._hand_in(cell)
            if cell.is_core and ledger.progress(self.connection, self.run.pk, batch.id).num_uncounted == 0:
                self._step(who, batch)

    def _hand_in(self, cell: Cell) -> None:
        claims = self.claims.pop(cell.index, [])
        batch = ledger.open_batch(self.connection, self.run.pk)
        if not claims or batch is None:
            return
        ledger.offer(self.connection, self._who(cell), batch.id, uuid4(), "0" * 64, len(claims), 1)
        core = Cell.objects.get(run=self.run, is_core=True)
        for offered in ledger.offers(self.connection, batch.id):
            ledger.count(self.connection, self._who(core), batch, offered)

    def _step(self, who: CellEpoch, batch: ledger.OpenBatch) -> None:
        commit = publication.StepCommit(
            batch_id=batch.id,
            version=batch.version + 1,
            checkpoint_path="/nowhere",
            checkpoint_sha256="0" * 64,
            checkpoint_bytes=0,
            cursor={},
            weights_sha256="0" * 64,
            manifest={},
            metrics={"loss": 0.0},
        )
        publication.commit_step(self.connection, who, batch, commit)

    # Workers

    def _work(self) -> None:
        while leased := lease_queued("stand-in", 1):
            execution = Execution.objects.select_related("group").get(pk=leased[0].execution_id)
            record_conversation(execution, version=self._sampling_version(execution))
        running = Execution.objects.filter(run=self.run, state=Execution.State.RUNNING).order_by("pk")
        for execution in running:
            if self.random.random() < self.finish_share:
                self._finish(execution)

    def _sampling_version(self, execution: Execution) -> int:
        """Calls go to cells in rollout: reserved ones for evaluations, the others for training."""
        cells = Cell.objects.filter(run=self.run, role=Cell.Role.ROLLOUT, evaluation=execution.group.evaluation)
        versions = list(cells.values_list("weight_version", flat=True))
        return min(versions) if versions else Run.objects.get(pk=self.run.pk).version

    def _finish(self, execution: Execution) -> None:
        if self.random.random() < self.unresolved_share:
            verdict = Verdict(Status.UNRESOLVED, reason_code=Reason.EVALUATOR_CRASHED, reason="no verdict")
        else:
            verdict = Verdict(Status.SCORED, value=round(self.random.random(), 2))
        finish_execution(execution.pk, execution.attempt, verdict, DONE)
