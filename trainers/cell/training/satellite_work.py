"""What only a satellite does: pull the core's weights, sum gradients, hand the sum in (docs/algorithms.md §11)."""

import logging
import time
from uuid import UUID, uuid4

import torch

from trainers import ledger
from trainers.cell import cell_row
from trainers.cell.settings import CellSettings
from trainers.cell.training.gradient_work import GradientWork
from trainers.cell.training.trainer import Trainer
from trainers.cell.transfer.endpoint import (
    Endpoint,
    Landing,
    Region,
    TransferFailed,
    flatten,
    sha256_of,
    total_bytes,
    unflatten,
)
from trainers.ledger import Connection, OpenBatch

log = logging.getLogger("gyre.satellite")

POLL_S = 0.05
PULL_RETRY_S = 0.2


class Satellite(GradientWork):
    """Holds a gradient sum of `num_summed` claimed micro-steps that the core does not have yet."""

    def __init__(self, settings: CellSettings, connection: Connection, trainer: Trainer, endpoint: Endpoint) -> None:
        super().__init__(settings, connection, trainer, endpoint)
        self.num_summed = 0
        self._batch_id = 0
        self._landing = Landing(endpoint, total_bytes(trainer.parameter_buffers()))
        self._outgoing = torch.empty(total_bytes(trainer.gradient_buffers()), dtype=torch.uint8)
        endpoint.register(self._outgoing)

    def start(self) -> None:
        """Wait for the core's first publication and pull it."""
        while not self.pull():
            time.sleep(PULL_RETRY_S)

    def pull(self) -> bool:
        """Take the newest published weights, verified. False: none could be had now."""
        newest = cell_row.newest_weights(self.connection, self.settings.cell.run_id)
        if newest is None or not newest.core_alive:
            return False
        if (newest.version, newest.sha256) == (self.version, self.sha256):
            return True
        try:
            region = Region.from_json(newest.manifest["region"])
            flat = self._landing.pull(newest.manifest["peer"], region, newest.sha256)
        except TransferFailed as error:
            log.warning("version %s could not be pulled: %s", newest.version, error)
            return False
        buffers = self.trainer.parameter_buffers()
        for mine, pulled in zip(buffers, unflatten(flat, buffers), strict=True):
            mine.copy_(pulled)
        self.version, self.sha256 = newest.version, newest.sha256
        return True

    # work

    def train_once(self) -> bool:
        """Claim and do one chunk of the open batch, or hand in when nothing is left to claim. False: nothing to do."""
        cell = self.settings.cell
        batch = ledger.open_batch(self.connection, cell.run_id)
        if batch is None or batch.id != self._batch_id:
            self._discard()
        if batch is None:
            return False
        if batch.version != self.version:
            return batch.version > self.version and self.pull()
        self._batch_id = batch.id
        if ledger.progress(self.connection, cell.run_id, batch.id).num_unclaimed:
            claims = self.claim_and_add(batch)
            self.num_summed += len(claims)
            return bool(claims)
        if batch.sealed and self.num_summed:
            self.hand_in(batch)
            return True
        return False

    def leave(self) -> None:
        """Hand in what was summed, before the role changes."""
        batch = ledger.open_batch(self.connection, self.settings.cell.run_id)
        if self.num_summed and batch is not None and batch.id == self._batch_id:
            self.hand_in(batch)
        else:
            self._discard()

    def hand_in(self, batch: OpenBatch) -> bool:
        """All or nothing: write the sum to the core, wait until it is counted. False: refused, and discarded."""
        flatten(self.trainer.gradient_buffers(), self._outgoing)
        sha256 = sha256_of(self._outgoing)
        counted = self._offer_until_answered(batch, sha256)
        if not counted:
            released = ledger.release(self.connection, self.settings.cell, batch.id)
            log.warning("a sum of %s micro-steps was discarded, %s claims released", self.num_summed, released)
        self._discard()
        return counted

    def _offer_until_answered(self, batch: OpenBatch, sha256: str) -> bool:
        cell = self.settings.cell
        failed_use = 0
        core = cell_row.core_row(self.connection, cell.run_id)
        core_epoch = core.epoch if core else -1
        while core is not None and core.alive and core.epoch == core_epoch:
            slot = core.transfer_slots.get(f"{cell.cell_index}:{cell.epoch}")
            if slot is None or slot["use"] <= failed_use:
                time.sleep(POLL_S)
            else:
                hand_in_id = uuid4()
                try:
                    self.endpoint.write(core.transfer_address, Region.from_json(slot), self._outgoing)
                except TransferFailed as error:
                    failed_use = slot["use"]
                    ledger.report_failed_write(self.connection, cell, batch.id, hand_in_id, failed_use, str(error))
                    self._renew_outgoing()
                    log.warning("the core's slot could not be written: %s", error)
                else:
                    ledger.offer(self.connection, cell, batch.id, hand_in_id, sha256, self.num_summed, slot["use"])
                    return self._wait_for_answer(hand_in_id, core_epoch)
            core = cell_row.core_row(self.connection, cell.run_id)
        return False

    def _wait_for_answer(self, hand_in_id: UUID, core_epoch: int) -> bool:
        while True:
            state, error = ledger.hand_in_state(self.connection, hand_in_id)
            if state != "offered":
                if error:
                    log.warning("hand-in %s: %s", state, error)
                return state == "counted"
            core = cell_row.core_row(self.connection, self.settings.cell.run_id)
            gone = core is None or not core.alive or core.epoch != core_epoch
            if gone and ledger.withdraw(self.connection, hand_in_id):
                return False
            time.sleep(POLL_S)

    def _renew_outgoing(self) -> None:
        """The library may still be reading the old buffer: it stays allocated and is not written again."""
        replacement = self._outgoing.clone()
        self.endpoint.register(replacement)
        self._outgoing = replacement

    def _discard(self) -> None:
        if self.num_summed:
            self.trainer.zero_gradients()
        self.num_summed = 0
        self._batch_id = 0
