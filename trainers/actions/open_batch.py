"""Open the batch of the next optimizer step (docs/algorithms.md §9, §11). Number n steps version n - 1 to n."""

from django.db import transaction

from agents import events
from trainers.models import Batch


def open_batch(run_id: int, *, number: int, burst: int, version: int) -> int:
    """Returns the batch's id. The database refuses a second batch in progress (IntegrityError)."""
    with transaction.atomic():
        batch = Batch.objects.create(run_id=run_id, number=number, burst=burst, version=version)
        payload = {"batch": number, "burst": burst, "version": version}
        events.record(run_id, events.EventKind.BATCH_OPENED, payload)
    return batch.pk
