"""Bring the core's trainer to the run's version: from the newest checkpoint that is whole (docs/algorithms.md §11).

Steps after an older checkpoint are done again from the ledger, whose payloads outlive the step for as long as the
checkpoint before it is kept. Only the order of summation differs, so the weights are those of before but for rounding.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from trainers import ledger
from trainers.cell import cell_row
from trainers.cell.training import checkpoint
from trainers.cell.training.trainer import Trainer
from trainers.checkpoint_files import BadCheckpoint
from trainers.core.payload import decode_payload
from trainers.ledger import Connection

log = logging.getLogger("gyre.restore")


@dataclass(frozen=True)
class Restored:
    """`from_version` is that of the checkpoint, 0 without any; `problems` says what is wrong with newer ones."""

    from_version: int
    problems: tuple[str, ...]


def restore(connection: Connection, run_id: int, trainer: Trainer, version: int) -> Restored | None:
    """`trainer` holds the policy's first weights, and `version` afterwards. None: the run has not started yet.

    Raises BadCheckpoint when that version cannot be had.
    """
    problems: list[str] = []
    kept = cell_row.checkpoints(connection, run_id, version)
    if not kept and version == 0:
        return None
    found = None
    for row in kept:
        try:
            found = checkpoint.read(Path(row.path), row.sha256)
        except BadCheckpoint as problem:
            log.error("checkpoint of version %s: %s", row.version, problem)
            problems.append(str(problem))
            continue
        trainer.load_hf(found.weights)
        trainer.load_optimizer_state(found.optimizer)
        break
    from_version = 0 if found is None else found.version
    for number in range(from_version + 1, version + 1):
        _step_again(connection, run_id, trainer, number, problems)
    return Restored(from_version, tuple(problems))


def _step_again(connection: Connection, run_id: int, trainer: Trainer, number: int, problems: list[str]) -> None:
    stepped = ledger.stepped_batch(connection, run_id, number)
    if stepped is None:
        raise BadCheckpoint(_beyond_repair(run_id, number, problems))
    log.warning("doing step %s again: %s micro-steps", number, len(stepped.micro_steps))
    for micro_step in stepped.micro_steps:
        payload = ledger.payload(connection, micro_step)
        if not payload:
            raise BadCheckpoint(_beyond_repair(run_id, number, problems))
        trainer.forward_backward([decode_payload(payload)])
    trainer.step(stepped.num_votes)


def _beyond_repair(run_id: int, number: int, problems: list[str]) -> str:
    damage = "; ".join(problems) or "no checkpoint is kept"
    return (
        f"{damage}. Step {number} cannot be done again either: its tokens were deleted. Bring the checkpoint's files "
        f"back from a backup, or take the newest whole version out with `manage.py export_policy {run_id} --version …` "
        "and launch a new run from it"
    )
