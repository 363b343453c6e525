"""What other apps may ask about batches and the micro-step ledger. Reads only."""

from django.db.models import Count

from trainers.models import Batch, MicroStep


def counted_micro_steps(run_id: int) -> dict[int, int]:
    """Cell index → micro-steps of stepped batches that it did."""
    counted = MicroStep.objects.filter(batch__run=run_id, batch__state=Batch.State.STEPPED, counted_at__isnull=False)
    rows = counted.order_by().values_list("cell_index").annotate(n=Count("pk"))
    return {cell_index: n for cell_index, n in rows if cell_index is not None}


def batch_in_progress(run_id: int) -> int | None:
    """Id of the batch that is open or sealed and has not stepped."""
    rows = Batch.objects.filter(run=run_id, state__in=[Batch.State.OPEN, Batch.State.SEALED])
    return rows.values_list("pk", flat=True).first()


def batch_versions(run_id: int) -> dict[int, int]:
    """Batch number → weight version that its gradients are taken at."""
    return dict(Batch.objects.filter(run=run_id).values_list("number", "version"))
