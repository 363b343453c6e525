"""Recorded calls and the folded tree (docs/algorithms.md §2, §3). Token columns never load with list queries."""

from django.db import models

from agents.models.executions import Execution
from agents.models.figures import Figure
from agents.models.runs import Run


class WithoutTokens(models.Manager):
    """Default manager: leaves the token column out unless `.with_tokens()` asks for it."""

    def get_queryset(self) -> models.QuerySet:
        return super().get_queryset().defer("tokens")

    def with_tokens(self) -> models.QuerySet:
        return super().get_queryset()


class Call(models.Model):
    """One model request. `tokens` holds only what the call adds to its parent's path (agents.core.codec.CallDelta)."""

    class State(models.TextChoices):
        COMPLETE = "complete"
        TRUNCATED = "truncated"  # the stream broke or the client left: possibly used
        FAILED = "failed"  # no tokens reached the client
        QUARANTINED = "quarantined"  # recorded, never trained

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="calls")
    attempt = models.PositiveIntegerField()
    number = models.PositiveIntegerField(help_text="0, 1, … in order of arrival within (execution, attempt).")
    uid = models.CharField(
        max_length=32,
        blank=True,
        default="",
        help_text="The proxy's own id: tells a repeated commit from another call.",
    )
    parent_number = models.IntegerField(null=True, blank=True, help_text="Call whose ids this one extends.")
    prefix_tokens = models.PositiveIntegerField(default=0, help_text="Ids shared with the parent's input + output.")
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    tokens = models.BinaryField(default=b"", help_text="Encoded CallDelta.")

    state = models.CharField(max_length=12, choices=State)
    dialect = models.CharField(max_length=20)
    role = models.CharField(max_length=20)
    conversation = models.CharField(max_length=120, blank=True)
    branch_reason = models.CharField(max_length=24, blank=True)
    false_fork = models.BooleanField(default=False)
    departure = models.JSONField(
        default=dict,
        blank=True,
        help_text="Of a false fork: call (whose turn it keeps), position (in tokens), and the ids and texts from there "
        "on: recorded_ids, recorded_text, given_ids, given_text.",
    )
    malformed = models.BooleanField(default=False)
    finish_reason = models.CharField(max_length=24, blank=True)
    sampling = models.JSONField(default=dict)
    versions = models.JSONField(default=list, help_text="[[version, start, end], …] over the output tokens.")
    request_hash = models.CharField(max_length=64, blank=True)
    messages = models.JSONField(default=list, help_text="Canonical messages this call adds, for the transcript.")
    reply = models.JSONField(default=dict, help_text="Parsed reply: content, reasoning, tool calls.")
    model_asked = models.CharField(max_length=120, blank=True)
    cell = models.IntegerField(null=True, blank=True, help_text="Index of the cell whose engine served it.")
    cached_tokens = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    started_at = models.DateTimeField()
    first_token_s = Figure(null=True, blank=True)
    duration_s = Figure(default=0.0)
    held_s = Figure(default=0.0)
    committed_at = models.DateTimeField(auto_now_add=True)

    objects = WithoutTokens()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "attempt", "number"], name="call_number_once_per_attempt")
        ]

    def __str__(self) -> str:
        return f"call {self.number} of execution {self.execution_id}"


class Node(models.Model):
    """A stretch of tokens of an execution's tree, written when the execution is sealed."""

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="nodes")
    attempt = models.PositiveIntegerField()
    number = models.PositiveIntegerField()
    parent_number = models.IntegerField(null=True, blank=True)
    depth = models.PositiveIntegerField(help_text="Tokens above this node on its path.")
    num_tokens = models.PositiveIntegerField()
    num_sampled = models.PositiveIntegerField()
    call_number = models.PositiveIntegerField(help_text="Call that added it.")
    role = models.CharField(max_length=20)
    tokens = models.BinaryField(default=b"", help_text="Encoded NodeTokens.")

    objects = WithoutTokens()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "attempt", "number"], name="node_number_once_per_attempt")
        ]


class RequestBody(models.Model):
    """Raw request archive by hash, zstd; retained for `retain_bodies`."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="bodies")
    hash = models.CharField(max_length=64)
    body = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "request bodies"
        constraints = [models.UniqueConstraint(fields=["run", "hash"], name="request_body_once_per_run")]
        indexes = [models.Index(fields=["created_at"])]
