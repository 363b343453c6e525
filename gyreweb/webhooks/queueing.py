"""From events to messages. Each webhook keeps how far it has come in the log of each run."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from agents.models import Run, RunEvent
from gyreweb.webhooks.models import Cursor, Delivery, Webhook
from gyreweb.webhooks.topics import TOPICS, kinds_of

#: Messages that are over are kept so long.
KEPT = timedelta(days=30)


def queue_new() -> int:
    """Queue a message for every new event that a webhook wants; how many. Safe to run twice at once."""
    num_queued = 0
    for number in Webhook.objects.filter(enabled=True).values_list("pk", flat=True):
        with transaction.atomic():
            hook = Webhook.objects.select_for_update(no_key=True, skip_locked=True).filter(pk=number).first()
            if hook is not None:
                num_queued += sum(_queue_of_run(hook, run) for run in _behind(hook))
    Delivery.objects.exclude(state=Delivery.State.QUEUED).filter(created_at__lt=timezone.now() - KEPT).delete()
    return num_queued


def _behind(hook: Webhook) -> list[Run]:
    """Runs with events that were not looked at, with `seen`, the last that was."""
    seen = Cursor.objects.filter(webhook=hook, run=OuterRef("pk")).values("seq")
    runs = Run.objects.filter(project=hook.project_id).annotate(seen=Coalesce(Subquery(seen), Value(0)))
    return list(runs.filter(event_seq__gt=F("seen")).order_by("pk"))


def _queue_of_run(hook: Webhook, run: Any) -> int:
    """The log is numbered in the order of commits, so nothing comes in below the run's number later."""
    events = RunEvent.objects.filter(run=run, seq__gt=run.seen, seq__lte=run.event_seq, kind__in=kinds_of(hook.topics))
    rows = [_of_event(hook, run, event) for event in events.order_by("seq")]
    Delivery.objects.bulk_create(rows)
    Cursor.objects.update_or_create(webhook=hook, run=run, defaults={"seq": run.event_seq})
    return len(rows)


def _of_event(hook: Webhook, run: Run, event: RunEvent) -> Delivery:
    data = {"run": run.pk, "name": run.name, "state": run.state, "step": run.version, "seq": event.seq}
    row = message(hook, TOPICS[event.kind], data | {"event": event.payload}, event.created_at)
    row.run, row.event_seq = run, event.seq
    return row


def message(hook: Webhook, topic: str, data: dict[str, Any], at: datetime | None = None) -> Delivery:
    """Not saved yet. `state` and `step` are those of the moment in which it was queued."""
    now = timezone.now()
    body = {"type": topic, "timestamp": (at or now).isoformat(), "data": data}
    return Delivery(webhook=hook, message_id=f"msg_{uuid.uuid4().hex}", topic=topic, body=json.dumps(body), next_at=now)
