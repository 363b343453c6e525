"""Where messages go, up to which event they were queued, and what became of each."""

from django.conf import settings
from django.db import models

from agents.models import Project, Run


class Webhook(models.Model):
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="webhooks")
    url = models.URLField(max_length=500)
    secret = models.CharField(max_length=80, help_text="Signs the messages; shown once, when it is made.")
    topics = models.JSONField(default=list, help_text="Message types; empty: all.")
    enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"webhook {self.pk}"


class Cursor(models.Model):
    """Events of the run up to `seq` have been looked at for the webhook."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="cursors")
    run = models.ForeignKey(Run, on_delete=models.CASCADE)
    seq = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["webhook", "run"], name="cursor_once_per_webhook_and_run")]


class Delivery(models.Model):
    """One message. `body` is what is signed and sent, byte for byte, however often."""

    class State(models.TextChoices):
        QUEUED = "queued"
        DELIVERED = "delivered"
        FAILED = "failed"

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    message_id = models.CharField(max_length=40, unique=True)
    topic = models.CharField(max_length=40)
    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, help_text="None: a test.")
    event_seq = models.PositiveBigIntegerField(null=True)
    body = models.TextField()
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(help_text="When it is sent next; while it is sent, when another may try.")
    last_status = models.PositiveIntegerField(null=True, help_text="HTTP status of the newest answer.")
    last_error = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        indexes = [
            models.Index(fields=["next_at"], condition=models.Q(state="queued"), name="deliveries_that_wait"),
            models.Index(fields=["webhook", "-id"]),
        ]

    def __str__(self) -> str:
        return f"{self.topic} {self.message_id}"
