"""The ledger of batches and micro-steps, weight versions and checkpoints (docs/algorithms.md §11)."""

from django.db import models
from django.db.models import Q

from agents.models import Run


class WithoutPayload(models.Manager):
    def get_queryset(self) -> models.QuerySet:
        return super().get_queryset().defer("payload")


class Batch(models.Model):
    """The groups of one optimizer step. Number n steps version n-1 to n."""

    class State(models.TextChoices):
        OPEN = "open"
        SEALED = "sealed"  # no further micro-steps; num_votes is final
        STEPPED = "stepped"
        EMPTY = "empty"  # sealed with |E| = 0: no step

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="batches")
    number = models.PositiveIntegerField()
    burst = models.PositiveIntegerField()
    version = models.PositiveIntegerField(help_text="Weight version its gradients are taken at.")
    state = models.CharField(max_length=8, choices=State, default=State.OPEN)
    num_groups = models.PositiveIntegerField(default=0)
    num_votes = models.PositiveIntegerField(default=0, help_text="|E|, final once sealed.")
    opened_at = models.DateTimeField(auto_now_add=True)
    sealed_at = models.DateTimeField(null=True, blank=True)
    stepped_at = models.DateTimeField(null=True, blank=True)
    metrics = models.JSONField(default=dict, help_text="loss, grad_norm, clip_fraction, logprob_gap, staleness, …")

    class Meta:
        verbose_name_plural = "batches"
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="batch_number_once_per_run"),
            models.UniqueConstraint(fields=["run"], condition=Q(state__in=["open", "sealed"]), name="one_open_batch"),
        ]

    def __str__(self) -> str:
        return f"batch {self.number}"


class HandIn(models.Model):
    """A gradient sum of one cell, all or nothing, under an idempotent id. The core's own sums are some too."""

    class State(models.TextChoices):
        OFFERED = "offered"  # written to the core's slot, not yet verified
        COUNTED = "counted"  # verified, added, and its micro-steps are counted
        REFUSED = "refused"  # hash, fence or transfer failed: nothing was added; the cell discards its sum
        RESET = "reset"  # was counted by a core that is gone; its micro-steps returned to the ledger

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="hand_ins")
    hand_in_id = models.UUIDField(unique=True)
    cell_index = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64, blank=True)
    num_micro_steps = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=State, default=State.OFFERED)
    slot = models.PositiveIntegerField(default=0, help_text="Use of the cell's slot in the core; 0: the core's own.")
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "hand-in"


class MicroStep(models.Model):
    """One packed unit of forward-backward work: claimed by a cell's epoch, counted by at most one hand-in."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="micro_steps")
    number = models.PositiveIntegerField()
    num_tokens = models.PositiveIntegerField()
    num_targets = models.PositiveIntegerField()
    num_trajectories = models.PositiveIntegerField()
    payload = models.BinaryField(default=b"", help_text="trainers.core.payload; emptied by retention after the step.")
    cell_index = models.PositiveIntegerField(null=True, blank=True)
    epoch = models.PositiveIntegerField(null=True, blank=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    hand_in = models.ForeignKey(HandIn, null=True, blank=True, on_delete=models.PROTECT, related_name="micro_steps")
    counted_at = models.DateTimeField(null=True, blank=True)
    metrics = models.JSONField(default=dict)

    objects = WithoutPayload()

    class Meta:
        indexes = [models.Index(fields=["batch", "cell_index"])]
        constraints = [
            models.UniqueConstraint(fields=["batch", "number"], name="micro_step_number_once"),
            models.CheckConstraint(
                condition=Q(hand_in__isnull=True) | Q(cell_index__isnull=False), name="counted_micro_step_was_claimed"
            ),
        ]


class Checkpoint(models.Model):
    """Weights, optimizer, version, ledger cursor and counters together, durable before the version is published."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checkpoints")
    version = models.PositiveIntegerField()
    path = models.TextField()
    sha256 = models.CharField(max_length=64)
    num_bytes = models.PositiveBigIntegerField()
    cursor = models.JSONField(default=dict, help_text="Ledger cursor and counters at the step.")
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "version"], name="checkpoint_once_per_version")]


class WeightVersion(models.Model):
    """A snapshot that cells may pull: where it lies in the core's memory and its hash."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="weight_versions")
    version = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    cell_index = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField()
    manifest = models.JSONField(help_text="Transfer address table: peer, buffers, dtype, entries.")
    published_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "version"], name="weight_version_once_per_run")]
