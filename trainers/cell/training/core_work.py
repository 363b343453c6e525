"""What only the core does: accept gradient sums, step, checkpoint, publish (docs/algorithms.md §11)."""

import logging
import time
from collections import Counter
from typing import Any
from uuid import uuid4

import numpy as np

from trainers import ledger, publication
from trainers.cell import cell_row
from trainers.cell.settings import CellSettings
from trainers.cell.training import checkpoint
from trainers.cell.training.gradient_work import GradientWork
from trainers.cell.training.restore import restore
from trainers.cell.training.trainer import Trainer
from trainers.cell.transfer.endpoint import Endpoint, Publisher, TransferFailed, total_bytes, unflatten
from trainers.cell.transfer.slots import GradientSlots
from trainers.core.loss import LossMetrics
from trainers.ledger import Connection, OpenBatch
from trainers.publication import StepCommit

log = logging.getLogger("gyre.core")


class Core(GradientWork):
    """The cell that owns the optimizer. Its gradient sum lives in the trainer and dies with this process."""

    def __init__(self, settings: CellSettings, connection: Connection, trainer: Trainer, endpoint: Endpoint) -> None:
        super().__init__(settings, connection, trainer, endpoint)
        self.publisher = Publisher(endpoint, total_bytes(trainer.parameter_buffers()))
        self._slots = GradientSlots(endpoint, total_bytes(trainer.gradient_buffers()))

    # start

    def start(self) -> None:
        """Bring the trainer to the run's version (0: the policy's folder) and publish it. Raises BadCheckpoint."""
        cell, version = self.settings.cell, self.settings.version
        restored = restore(self.connection, cell.run_id, self.trainer, version)
        self.version = version
        returned = ledger.reset_open_batch(self.connection, cell)
        if returned:
            log.info("%s micro-steps of the open batch returned to the ledger", returned)
        self.sha256, manifest = self.publisher.snapshot(self.trainer.parameter_buffers())
        if restored is None:
            publication.publish_first(self.connection, cell, self._commit(0, self.sha256, manifest, {}))
        elif restored.problems or restored.from_version < version:
            commit = self._commit(version, self.sha256, manifest, {})
            publication.publish_rebuilt(self.connection, cell, commit, restored.from_version, restored.problems)
        else:
            publication.republish(self.connection, cell, version, self.sha256, manifest)

    # gradients

    def train_once(self) -> bool:
        """Claim and do one chunk, or step when everything is counted. False: nothing to do."""
        batch = ledger.open_batch(self.connection, self.settings.cell.run_id)
        if batch is None or batch.version != self.version:
            return False
        progress = ledger.progress(self.connection, self.settings.cell.run_id, batch.id)
        if progress.num_unclaimed:
            claims = self.claim_and_add(batch)
            if claims:
                ledger.count_own(self.connection, self.settings.cell, batch, uuid4(), claims)
            return bool(claims)
        if batch.sealed and not progress.num_uncounted:
            self._step(batch)
            return True
        return False

    def accept_offers(self) -> None:
        """Provide every satellite with a slot; verify, count and add each gradient sum that was offered in one."""
        cell = self.settings.cell
        batch = ledger.open_batch(self.connection, cell.run_id)
        if batch is None:
            return
        live = cell_row.satellites(self.connection, cell.run_id)
        if self._slots.provide(live, ledger.failed_slots(self.connection, batch.id)):
            slots = self._slots.to_json()
            cell_row.report(self.connection, cell, transfer_address=self.endpoint.peer, transfer_slots=slots)
        for offered in ledger.offers(self.connection, batch.id):
            landing = self._slots.find((offered.cell_index, offered.epoch), offered.slot)
            if landing is None:
                ledger.refuse(self.connection, offered.id, "the slot is not in use")
                continue
            try:
                flat = landing.take(offered.sha256)
                ledger.count(self.connection, cell, batch, offered)
            except (TransferFailed, ledger.Fenced) as error:
                log.warning("hand-in of cell %s refused: %s", offered.cell_index, error)
                ledger.refuse(self.connection, offered.id, str(error))
                continue
            self.trainer.add_gradients(unflatten(flat, self.trainer.gradient_buffers()))
        self._slots.release(live)  # an epoch that had ended before offers were read can make no new ones

    # the step

    def _step(self, batch: OpenBatch) -> None:
        started = time.monotonic()
        per_micro_step = ledger.batch_metrics(self.connection, batch.id)
        result = self.trainer.step(batch.num_votes)
        version = self.version + 1
        sha256, manifest = self.publisher.snapshot(self.trainer.parameter_buffers())
        metrics = {
            **_batch_metrics(per_micro_step, self.settings.config.loss, batch.num_votes),
            "grad_norm": result.grad_norm,
            "learning_rate": result.learning_rate,
            "step_s": round(time.monotonic() - started, 4),
        }
        commit = self._commit(version, sha256, manifest, metrics, batch)
        publication.commit_step(self.connection, self.settings.cell, batch, commit)
        self.version, self.sha256 = version, sha256
        log.info("version %s: %s", version, metrics)
        kept = self.settings.config.checkpoints_kept
        deleted = checkpoint.prune(self.settings.run_folder, kept, protected=[version])
        cell_row.mark_checkpoints_deleted(self.connection, self.settings.cell.run_id, deleted)

    def _commit(
        self,
        version: int,
        weights_sha256: str,
        manifest: dict[str, Any],
        metrics: dict[str, Any],
        batch: OpenBatch | None = None,
    ) -> StepCommit:
        """Write the durable checkpoint of the trainer's present state; the result publishes it."""
        cursor = {"version": version, "batch": batch.number if batch else 0, "weights_sha256": weights_sha256}
        written = checkpoint.write(
            self.settings.run_folder,
            version,
            self.trainer.export_hf(),
            self.trainer.optimizer_state(),
            cursor,
            self.settings.policy_folder,
        )
        return StepCommit(
            batch_id=batch.id if batch else 0,
            version=version,
            checkpoint_path=str(written.path),
            checkpoint_sha256=written.sha256,
            checkpoint_bytes=written.num_bytes,
            cursor=cursor,
            weights_sha256=weights_sha256,
            manifest=manifest,
            metrics=metrics,
        )


def _batch_metrics(per_micro_step: list[dict[str, Any]], kind: Any, num_votes: int) -> dict[str, Any]:
    total, staleness = LossMetrics(), Counter[str]()
    for values in per_micro_step:
        total = total + LossMetrics.from_json(values["loss"])
        staleness.update(values["staleness"])
    summary = total.summary(kind, num_votes)
    finite = {name: value if np.isfinite(value) else None for name, value in summary.items()}
    return {**finite, "num_votes": num_votes, "staleness": dict(sorted(staleness.items(), key=lambda i: int(i[0])))}
