"""Django admin of cells, decisions, overrides and evaluations: for reading, and for releasing an override."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest

from agents.actions.errors import Refused
from agents.admin import ReadOnlyAdmin
from scheduler.actions.release_override import release_override
from scheduler.models import Burst, Cell, Decision, Evaluation, Override, RoleChange, WhatIf, WhatIfPoint
from scheduler.simulator.studies.models import SimulatedDecision, SimulatedRun, Simulation


@admin.register(Cell)
class CellAdmin(ReadOnlyAdmin):
    list_display = (
        "run",
        "index",
        "is_core",
        "role",
        "desired_role",
        "phase",
        "weight_version",
        "epoch",
        "heartbeat_at",
    )
    list_filter = ("role", "is_core")
    list_select_related = ("run",)
    ordering = ("-run", "index")


@admin.register(RoleChange)
class RoleChangeAdmin(ReadOnlyAdmin):
    list_display = ("id", "cell", "from_role", "to_role", "state", "started_at", "finished_at")
    list_filter = ("state", "to_role")
    list_select_related = ("cell",)
    ordering = ("-id",)


@admin.register(Burst)
class BurstAdmin(ReadOnlyAdmin):
    list_display = ("run", "number", "version", "num_groups", "groups_per_batch", "executions_per_group", "created_at")
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    list_display = ("run", "number", "version", "state", "reward_mean", "num_scored", "num_tasks", "finished_at")
    list_filter = ("state",)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    list_display = ("run", "number", "kind", "cell_index", "accepted", "reason", "created_at")
    list_filter = ("kind", "accepted")
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(Override)
class OverrideAdmin(ReadOnlyAdmin):
    list_display = ("run", "kind", "cell_index", "value", "owner", "reason", "expires_at", "released_at")
    list_filter = ("kind", "unsafe")
    list_select_related = ("run", "owner")
    ordering = ("-id",)
    actions = ("release",)

    @admin.action(description="Release the selected overrides", permissions=["release"])
    def release(self, request: HttpRequest, queryset: models.QuerySet[Override]) -> None:
        for row in queryset:
            try:
                release_override(row, user=request.user, reason="released in the admin")
            except Refused as error:
                self.message_user(request, str(error), messages.ERROR)

    def has_release_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("scheduler.change_override")


@admin.register(WhatIf)
class WhatIfAdmin(ReadOnlyAdmin):
    list_display = ("id", "run", "owner", "state", "num_done", "num_to_do", "created_at", "finished_at")
    list_filter = ("state",)
    list_select_related = ("run", "owner")
    ordering = ("-id",)


@admin.register(WhatIfPoint)
class WhatIfPointAdmin(ReadOnlyAdmin):
    list_display = ("id", "what_if", "number", "changes")
    list_select_related = ("what_if",)
    ordering = ("-id",)


@admin.register(Simulation)
class SimulationAdmin(ReadOnlyAdmin):
    list_display = ("id", "name", "project", "changes", "created_by", "created_at")
    list_select_related = ("project", "created_by")
    ordering = ("-id",)


@admin.register(SimulatedRun)
class SimulatedRunAdmin(ReadOnlyAdmin):
    list_display = ("id", "simulation", "policy_kind", "seed", "training_cells", "hours")
    list_filter = ("policy_kind",)
    list_select_related = ("simulation",)
    ordering = ("-id",)


@admin.register(SimulatedDecision)
class SimulatedDecisionAdmin(ReadOnlyAdmin):
    list_display = ("run", "number", "kind", "cell_index", "accepted", "reason", "at_s")
    list_filter = ("kind", "accepted")
    list_select_related = ("run",)
    ordering = ("-id",)
