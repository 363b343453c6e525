"""Django admin of the training ledger: for reading."""

from django.contrib import admin

from agents.admin import ReadOnlyAdmin
from trainers.models import Batch, Checkpoint, HandIn, MicroStep, WeightVersion


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    list_display = ("run", "number", "version", "state", "num_groups", "num_votes", "opened_at", "stepped_at")
    list_filter = ("state",)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(HandIn)
class HandInAdmin(ReadOnlyAdmin):
    list_display = ("id", "batch", "cell_index", "epoch", "num_micro_steps", "created_at")
    list_select_related = ("batch",)
    ordering = ("-id",)


@admin.register(MicroStep)
class MicroStepAdmin(ReadOnlyAdmin):
    list_display = ("id", "batch", "number", "num_tokens", "num_targets", "cell_index", "claimed_at", "counted_at")
    list_filter = ("cell_index",)
    list_select_related = ("batch",)
    ordering = ("-id",)


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnlyAdmin):
    list_display = ("run", "version", "path", "num_bytes", "created_at", "deleted_at")
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(WeightVersion)
class WeightVersionAdmin(ReadOnlyAdmin):
    list_display = ("run", "version", "cell_index", "epoch", "sha256", "published_at")
    list_select_related = ("run",)
    ordering = ("-id",)
