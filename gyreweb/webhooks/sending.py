"""Sending what is due: signed by Standard Webhooks, with a bound on each try, and further tries ever more seldom."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

import httpx
from django.db import transaction
from django.utils import timezone
from standardwebhooks.webhooks import Webhook as Signer

from gyreweb.webhooks.models import Delivery, Webhook

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
#: Pauses after tries that failed; a try that fails after the last of them, within two days, was the last.
PAUSES = tuple(timedelta(seconds=seconds) for seconds in (5, 300, 1_800, 7_200, 36_000, 86_400))
#: While one worker sends a message, no other does, unless it was lost.
LEASE = timedelta(seconds=60)
#: One call of `send_due` takes no longer, so that an endpoint that hangs holds up nobody else's work.
BUDGET_S = 30.0
GONE = 410


def send_due(budget_s: float = BUDGET_S) -> int:
    """Send messages that are due, oldest first; how many were tried. Safe to run twice at once."""
    deadline, num_tried = time.monotonic() + budget_s, 0
    with httpx.Client(timeout=TIMEOUT_S, follow_redirects=False) as client:
        while time.monotonic() < deadline and (row := _claim()) is not None:
            _settle(row, *_post(client, row))
            num_tried += 1
    return num_tried


def _claim() -> Delivery | None:
    now = timezone.now()
    with transaction.atomic():
        waiting = Delivery.objects.filter(state=Delivery.State.QUEUED, next_at__lte=now, webhook__enabled=True)
        rows = waiting.select_for_update(no_key=True, skip_locked=True, of=("self",)).select_related("webhook")
        row = rows.order_by("next_at").first()
        if row is not None:
            row.attempts, row.next_at = row.attempts + 1, now + LEASE
            row.save(update_fields=["attempts", "next_at"])
    return row


def _post(client: httpx.Client, row: Delivery) -> tuple[int | None, str]:
    """HTTP status and what went wrong. The answer's body is not read."""
    now = timezone.now()
    headers = {
        "content-type": "application/json",
        "user-agent": "gyre",
        "webhook-id": row.message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Signer(row.webhook.secret).sign(row.message_id, now, row.body),
    }
    try:
        with client.stream("POST", row.webhook.url, content=row.body.encode(), headers=headers) as reply:
            return reply.status_code, "" if reply.is_success else f"it answered {reply.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return None, f"{type(error).__name__}: {error}"[:300]


def _settle(row: Delivery, status: int | None, error: str) -> None:
    row.last_status, row.last_error = status, error
    if not error:
        row.state, row.delivered_at = Delivery.State.DELIVERED, timezone.now()
    elif status == GONE or row.attempts > len(PAUSES):
        row.state = Delivery.State.FAILED
        log.warning("%s to %s failed for good: %s", row, row.webhook, error)
    else:
        row.next_at = timezone.now() + PAUSES[row.attempts - 1]
    row.save(update_fields=["state", "next_at", "last_status", "last_error", "delivered_at"])
    if status == GONE:
        why = "its endpoint answered 410 Gone"
        Webhook.objects.filter(pk=row.webhook_id).update(enabled=False, disabled_reason=why)
