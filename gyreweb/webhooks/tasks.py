"""The task that sends, and the chore that wakes it. What is to be sent stands in Postgres."""

from celery import shared_task

from gyreweb.webhooks.actions import DELIVER
from gyreweb.webhooks.models import Webhook
from gyreweb.webhooks.queueing import queue_new
from gyreweb.webhooks.sending import send_due
from scheduler import wakes
from scheduler.chores import Chore, register

EVERY_S = 5.0


@shared_task
def deliver() -> None:
    queue_new()
    send_due()


def _wake_if_needed() -> None:
    if Webhook.objects.filter(enabled=True).exists():
        wakes.wake(DELIVER)


register(Chore("webhooks", EVERY_S, _wake_if_needed))
