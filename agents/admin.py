"""Django admin of runs, executions, trees and tokens: for reading. Writes go through the same actions as elsewhere."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest

from agents.actions.api_tokens import revoke_tokens
from agents.models import (
    ApiToken,
    Assessment,
    Call,
    Draw,
    Execution,
    Group,
    KeptWorkspace,
    Node,
    Project,
    ProxyProcess,
    Reassessment,
    RequestBody,
    Run,
    RunEvent,
    SelectionRecord,
    Task,
    TaskSet,
    Trajectory,
)
from agents.web import access

#: Columns that no page of the admin loads, beside all binary ones (tokens, gradients, bodies, hashes of secrets).
SECRET_OR_LARGE = frozenset({"engine_key", "manifest", "secret", "series", "snapshot"})


def is_heavy(field: models.Field[Any, Any]) -> bool:
    return isinstance(field, models.BinaryField) or field.name in SECRET_OR_LARGE


def path_to_project(model: Any) -> str:
    """The shortest look-up from a model over what it belongs to up to its project; empty for what has none."""
    reached, next_up = {model}, [(model, "")]
    for at, path in next_up:
        if at is Project:
            return path or "pk"
        for field in at._meta.concrete_fields:
            if (field.many_to_one or field.one_to_one) and field.related_model not in reached:
                reached.add(field.related_model)
                next_up.append((field.related_model, f"{path}__{field.name}" if path else field.name))
    return ""


def within_projects(rows: models.QuerySet[Any], request: HttpRequest) -> models.QuerySet[Any]:
    """Of rows that belong to a project, those that the viewer may see: the walls of projects hold here too."""
    path, ids = path_to_project(rows.model), access.viewer_of_user(request.user).project_ids
    return rows if ids is None or not path else rows.filter(**{f"{path}__in": ids})


class ReadOnlyAdmin(admin.ModelAdmin):
    """Shows every column but the heavy and secret ones, and changes nothing."""

    show_full_result_count = False
    list_per_page = 50

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        heavy = [field.name for field in self.opts.concrete_fields if is_heavy(field)]
        return within_projects(super().get_queryset(request), request).defer(*heavy)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [field.name for field in self.opts.concrete_fields if not is_heavy(field)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return self.get_fields(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin):
    list_display = ("slug", "name", "created_at")
    filter_horizontal = ("members",)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return within_projects(super().get_queryset(request), request)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens are made by `manage.py create_token`, which shows the secret once; here they are revoked."""

    list_display = ("name", "prefix", "project", "scopes", "created_by", "last_used_at", "expires_at", "revoked_at")
    list_select_related = ("project", "created_by")
    actions = ("revoke",)

    @admin.action(description="Revoke the selected tokens", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: models.QuerySet[ApiToken]) -> None:
        count = revoke_tokens(queryset.values_list("pk", flat=True))
        self.message_user(request, f"{count} revoked.")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("agents.change_apitoken")


@admin.register(TaskSet)
class TaskSetAdmin(ReadOnlyAdmin):
    list_display = ("name", "path", "digest", "created_at")
    search_fields = ("name",)


@admin.register(Task)
class TaskAdmin(ReadOnlyAdmin):
    list_display = ("name", "task_set", "split", "kind")
    list_filter = ("split", "kind")
    list_select_related = ("task_set",)
    search_fields = ("name",)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ("id", "name", "project", "state", "version", "dispatched", "launched", "finished", "created_at")
    list_filter = ("state", "policy_kind")
    list_select_related = ("project",)
    search_fields = ("name", "preset")


@admin.register(RunEvent)
class RunEventAdmin(ReadOnlyAdmin):
    list_display = ("run", "seq", "kind", "created_at")
    list_filter = ("kind",)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(Group)
class GroupAdmin(ReadOnlyAdmin):
    list_display = ("id", "run", "number", "kind", "state", "task", "num_votes", "reward_mean", "reward_std", "batch")
    list_filter = ("kind", "state")
    list_select_related = ("run", "task")
    ordering = ("-id",)


@admin.register(Execution)
class ExecutionAdmin(ReadOnlyAdmin):
    list_display = ("id", "run", "group", "index", "attempt", "state", "outcome", "reward", "advantage", "num_calls")
    list_filter = ("state", "outcome")
    list_select_related = ("run", "group")
    ordering = ("-id",)
    search_fields = ("=id", "reason_code")


@admin.register(Assessment)
class AssessmentAdmin(ReadOnlyAdmin):
    list_display = ("id", "execution", "attempt", "status", "reason_code", "value", "duration_s", "created_at")
    list_filter = ("status",)
    ordering = ("-id",)


@admin.register(Call)
class CallAdmin(ReadOnlyAdmin):
    list_display = ("id", "execution", "attempt", "number", "role", "state", "input_tokens", "output_tokens", "cell")
    list_filter = ("role", "state", "dialect", "false_fork")
    ordering = ("-id",)
    search_fields = ("=execution__id",)


@admin.register(Node)
class NodeAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        "execution",
        "attempt",
        "number",
        "parent_number",
        "depth",
        "num_tokens",
        "num_sampled",
        "role",
    )
    list_filter = ("role",)
    ordering = ("-id",)
    search_fields = ("=execution__id",)


@admin.register(Draw)
class DrawAdmin(ReadOnlyAdmin):
    list_display = ("id", "execution", "attempt", "number", "role", "random", "chosen_call")
    list_filter = ("role",)
    ordering = ("-id",)


@admin.register(Trajectory)
class TrajectoryAdmin(ReadOnlyAdmin):
    list_display = ("id", "execution", "attempt", "number", "role", "num_tokens", "num_targets", "batch")
    list_filter = ("role",)
    ordering = ("-id",)


@admin.register(RequestBody)
class RequestBodyAdmin(ReadOnlyAdmin):
    list_display = ("id", "run", "hash", "created_at")
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(ProxyProcess)
class ProxyProcessAdmin(ReadOnlyAdmin):
    list_display = ("name", "epoch", "address", "socket", "pid", "started_at", "seen_at", "stopped_at")
    ordering = ("name",)


@admin.register(KeptWorkspace)
class KeptWorkspaceAdmin(ReadOnlyAdmin):
    list_display = ("id", "execution", "attempt", "host", "num_bytes", "problem", "created_at", "deleted_at")
    ordering = ("-id",)


@admin.register(Reassessment)
class ReassessmentAdmin(ReadOnlyAdmin):
    list_display = ("id", "execution", "attempt", "state", "owner", "reason", "effect", "created_at", "finished_at")
    list_filter = ("state",)
    list_select_related = ("owner",)
    ordering = ("-id",)


@admin.register(SelectionRecord)
class SelectionRecordAdmin(ReadOnlyAdmin):
    list_display = ("id", "execution", "attempt", "batch", "j_max", "num_leaves", "num_drawn", "num_selected_tokens")
    ordering = ("-id",)
