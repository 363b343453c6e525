"""Make a webhook, delete it, and have it send a message as a test."""

from __future__ import annotations

import base64
import secrets
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from agents.actions.errors import Refused
from agents.models import Project, Run
from gyreweb.webhooks import queueing
from gyreweb.webhooks.models import Cursor, Delivery, Webhook
from gyreweb.webhooks.topics import NAMES, TEST
from scheduler import wakes

LOOPBACK = ("localhost", "127.0.0.1", "::1")
#: Most webhooks of a project: each of them is a message per event.
MAX_PER_PROJECT = 20
DELIVER = "gyreweb.webhooks.tasks.deliver"


def create_webhook(*, project: Project, user: AbstractBaseUser | None, url: str, topics: list[str]) -> Webhook:
    """It is told what happens from now on. Raises Refused; `secret` of the row is what the receiver verifies with."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise Refused("a webhook's address begins with https:// (http:// only on this machine)")
    if parts.username or parts.password:
        raise Refused("a webhook's address holds no user name and no password: messages are signed instead")
    if unknown := sorted(set(topics) - set(NAMES)):
        raise Refused(f"unknown topics {', '.join(unknown)}; known: {', '.join(NAMES)}")
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        if Webhook.objects.filter(project=project).count() >= MAX_PER_PROJECT:
            raise Refused(f"project {project.slug} has {MAX_PER_PROJECT} webhooks already; delete one")
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        hook = Webhook.objects.create(
            project=project, created_by=user, url=url, topics=sorted(set(topics)), secret=secret
        )
        Cursor.objects.bulk_create(
            Cursor(webhook=hook, run_id=run, seq=seq)
            for run, seq in Run.objects.filter(project=project).values_list("pk", "event_seq")
        )
    return hook


def delete_webhook(hook: Webhook) -> None:
    """With its log; what waits is not sent any more."""
    hook.delete()


def send_test(hook: Webhook, *, user: AbstractBaseUser | None) -> Delivery:
    """Queue a test message. Raises Refused for a webhook that is disabled."""
    if not hook.enabled:
        raise Refused(f"webhook {hook.pk} is disabled ({hook.disabled_reason}); delete it and make a new one")
    data: dict[str, Any] = {"webhook": hook.pk, "by": user.get_username() if user else ""}
    row = queueing.message(hook, TEST, data)
    row.save()
    wakes.wake(DELIVER)
    return row
