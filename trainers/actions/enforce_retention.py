"""Retention of training data: old checkpoints and the payloads of micro-steps whose step is durable."""

import logging
import shutil
from pathlib import Path

from django.utils import timezone

from agents.models import Run
from trainers.models import Batch, Checkpoint, MicroStep

log = logging.getLogger(__name__)


def enforce_retention(run: Run) -> int:
    """Keep the newest `checkpoints_kept` checkpoints, and the payloads of steps after the oldest of them.

    A step whose checkpoint is damaged is done again from these (trainers.cell.training.restore).
    An ended run needs none.
    Returns the number of checkpoints deleted.
    """
    num_kept = run.config["checkpoints_kept"]
    versions = list(Checkpoint.objects.filter(run=run, deleted_at=None).order_by("-version"))
    kept, surplus = versions[:num_kept], versions[num_kept:]
    stepped = MicroStep.objects.filter(batch__run=run, batch__state=Batch.State.STEPPED).exclude(payload=b"")
    if kept and run.state in Run.LIVE_STATES:
        stepped = stepped.filter(batch__number__lte=kept[-1].version)
    stepped.update(payload=b"")
    for checkpoint in surplus:
        shutil.rmtree(Path(checkpoint.path), ignore_errors=True)
        if Path(checkpoint.path).exists():
            log.warning("checkpoint %s could not be deleted", checkpoint.path)
            continue
        checkpoint.deleted_at = timezone.now()
        checkpoint.save(update_fields=["deleted_at"])
    return len(surplus)
