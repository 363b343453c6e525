"""The run's event log: a row per change of state, numbered without gaps, and a doorbell after commit."""

import json
import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import connection, transaction

from agents.eventlog import appending
from agents.models import RunEvent

log = logging.getLogger(__name__)


class EventKind(StrEnum):
    """Names are past participles."""

    RUN_CREATED = "run_created"
    RUN_STARTED = "run_started"
    RUN_PAUSED = "run_paused"
    RUN_RESUMED = "run_resumed"
    RUN_CONTINUED = "run_continued"  # its cells are up again after a resume
    RUN_FINISHED = "run_finished"
    RUN_STOPPED = "run_stopped"
    GROUP_DISPATCHED = "group_dispatched"
    GROUP_READY = "group_ready"
    GROUP_VOIDED = "group_voided"
    EXECUTION_DISPATCHED = "execution_dispatched"
    EXECUTION_LAUNCHED = "execution_launched"
    EXECUTION_FINISHED = "execution_finished"
    EXECUTION_RETRIED = "execution_retried"
    REASSESSMENT_REQUESTED = "reassessment_requested"
    REASSESSMENT_FAILED = "reassessment_failed"
    EXECUTION_REASSESSED = "execution_reassessed"
    CALL_MOVED = "call_moved"
    CALL_QUARANTINED = "call_quarantined"
    DECISION_MADE = "decision_made"
    ROLE_CHANGE_STARTED = "role_change_started"
    ROLE_CHANGE_FINISHED = "role_change_finished"
    CELL_LOST = "cell_lost"
    CELL_RECOVERED = "cell_recovered"
    BATCH_OPENED = "batch_opened"
    MICRO_STEP_CLAIMED = "micro_step_claimed"
    GRADIENT_HANDED_IN = "gradient_handed_in"
    BATCH_SEALED = "batch_sealed"
    STEP_COMMITTED = "step_committed"
    CHECKPOINT_REBUILT = "checkpoint_rebuilt"
    WEIGHTS_PUBLISHED = "weights_published"
    EVALUATION_FINISHED = "evaluation_finished"
    OVERRIDE_SET = "override_set"
    OVERRIDE_EXTENDED = "override_extended"
    OVERRIDE_RELEASED = "override_released"
    ALARM_RAISED = "alarm_raised"
    ALARM_CLEARED = "alarm_cleared"


def record(run_id: int, kind: EventKind, payload: dict[str, Any] | None = None) -> int:
    """Append an event inside the caller's transaction and ring the doorbell after commit. Returns its seq.

    The run's row is locked until the caller commits, which is what makes `seq` gapless and in commit order.
    """
    return record_all(run_id, [(kind, payload or {})])


_APPEND = f"WITH {appending('finished = finished + %(finished)s')} SELECT event_seq FROM numbered"


def record_all(run_id: int, entries: Sequence[tuple[EventKind, dict[str, Any]]]) -> int:
    """Append several events at once, as `record` does for one. Returns the seq of the last."""
    last = Appended(run_id, entries).last_seq()
    transaction.on_commit(lambda: ring(run_id, last), robust=True)
    return last


class Appended:
    """Events that are appended inside the caller's transaction, in one statement; reading their seq may wait for it.

    `finished` raises the run's count of finished executions by so many. No doorbell: the scheduler rings that of a live
    run when it sees `event_seq` rise, as it does for events of the proxy and the cells.
    """

    def __init__(self, run_id: int, entries: Sequence[tuple[EventKind, dict[str, Any]]], finished: int = 0) -> None:
        self._cursor = connection.cursor()
        self._cursor.execute(_APPEND, {"run": run_id, "events": json.dumps(entries), "finished": finished})

    def last_seq(self) -> int:
        return int(self._cursor.fetchone()[0])


def ring(run_id: int, seq: int) -> None:
    """Tell listeners that `seq` exists. A lost ring is harmless: consumers also poll by heartbeat."""
    layer = get_channel_layer()
    try:
        async_to_sync(layer.group_send)(f"run.{run_id}", {"type": "run.event", "run": run_id, "seq": seq})
    except Exception:
        log.warning("doorbell for run %s seq %s did not ring", run_id, seq, exc_info=True)


def newest(run_id: int, kind: EventKind) -> dict[str, Any] | None:
    """Payload of the run's newest event of this kind."""
    rows = RunEvent.objects.filter(run=run_id, kind=kind).order_by("-seq")
    return rows.values_list("payload", flat=True).first()
