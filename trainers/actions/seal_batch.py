"""Seal the open batch: |E| is final and no micro-step follows (docs/algorithms.md §8, §9)."""

from django.db import transaction
from django.utils import timezone

from agents import events
from agents.actions.errors import Refused
from trainers.models import Batch, MicroStep


def seal_batch(batch_id: int) -> Batch:
    """A batch with |E| = 0 is EMPTY: it takes no optimizer step. Raises Refused when the batch is not open."""
    with transaction.atomic():
        batch = Batch.objects.select_for_update(no_key=True).get(pk=batch_id)
        if batch.state != Batch.State.OPEN:
            raise Refused(f"batch {batch.number} is {batch.state}; only an open batch is sealed")
        batch.state = Batch.State.SEALED if batch.num_votes else Batch.State.EMPTY
        batch.sealed_at = timezone.now()
        batch.save(update_fields=["state", "sealed_at"])
        payload = {
            "batch": batch.number,
            "state": batch.state,
            "num_groups": batch.num_groups,
            "num_votes": batch.num_votes,
            "num_micro_steps": MicroStep.objects.filter(batch=batch).count(),
        }
        events.record(batch.run_id, events.EventKind.BATCH_SEALED, payload)
    return batch
