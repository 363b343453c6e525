"""Admit a ready group to the open batch: its trajectories become micro-steps for cells to claim.

See docs/algorithms.md §11.
"""

from django.db import transaction
from django.db.models import F

from agents import facade
from agents.actions.admit_executions import Terms, admit_executions
from agents.actions.errors import Refused
from trainers.core.packing import pack
from trainers.core.payload import encode_payload
from trainers.models import Batch, MicroStep


def admit_group(batch_id: int, group_id: int, *, j_max: int | None = None, max_staleness: int | None = None) -> int:
    """Returns the number of micro-steps added. Raises Refused when the batch is not open or the group not ready.

    `j_max`, `max_staleness`: bounds in force where they differ from the run's settings (an override's, the burst's).
    """
    with transaction.atomic():
        batch = Batch.objects.select_for_update(no_key=True).get(pk=batch_id)
        if batch.state != Batch.State.OPEN:
            raise Refused(f"batch {batch.number} is {batch.state}; groups are admitted to an open batch")
        config = facade.run(batch.run_id).config
        terms = Terms(
            batch.number,
            batch.version,
            config["max_staleness"] if max_staleness is None else max_staleness,
            config["j_max"] if j_max is None else j_max,
        )
        admitted = admit_executions(group_id, terms)
        first = MicroStep.objects.filter(batch=batch).count()
        rows = [
            MicroStep(
                batch=batch,
                number=first + index,
                num_tokens=payload.num_tokens,
                num_targets=payload.num_targets,
                num_trajectories=payload.num_trajectories,
                payload=encode_payload(payload),
            )
            for index, payload in enumerate(pack(admitted.trajectories, config["tokens_per_micro_step"]))
        ]
        MicroStep.objects.bulk_create(rows)
        Batch.objects.filter(pk=batch_id).update(
            num_groups=F("num_groups") + 1, num_votes=F("num_votes") + admitted.num_votes
        )
    return len(rows)
