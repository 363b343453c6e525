"""Cells, decisions, batches, overrides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.actions.errors import NotFound
from agents.web import access
from gyreweb.api import paging, serializers
from gyreweb.api.auth import viewer_of
from gyreweb.api.query import flag_of
from gyreweb.api.views.runs import PAGE, PROBLEMS
from scheduler.actions.extend_override import extend_override
from scheduler.actions.release_override import release_override
from scheduler.actions.set_override import preview_override, set_override
from scheduler.web import cells as cell_queries
from scheduler.web import decisions as decision_queries
from scheduler.web import overrides as override_queries
from trainers.web import batches as batch_queries


class Cells(APIView):
    @extend_schema(
        operation_id="cells_list",
        parameters=[OpenApiParameter("run", int)],
        responses={
            200: serializers.paged("Cell", serializers.Cell),
            401: serializers.Problem,
            404: serializers.Problem,
            422: serializers.Problem,
        },
    )
    def get(self, request: Request) -> Response:
        """Cells of one run, or of all runs that can still go on. The core of each run first."""
        viewer = viewer_of(request)
        run_id = paging.number_of(request, "run")
        runs = [access.run_for(viewer, run_id)] if run_id else list(access.live_runs(viewer))
        rows = [cell for run in runs for cell in cell_queries.cells_of(run)]
        return Response(paging.page(serializers.Cell(rows, many=True).data, None))


class CellItem(APIView):
    scopes: ClassVar = {"PATCH": access.OPERATE}

    @extend_schema(operation_id="cells_get", responses={200: serializers.Cell, **PROBLEMS})
    def get(self, request: Request, name: str) -> Response:
        return Response(serializers.Cell(self._cell(request, name)[1]).data)

    @extend_schema(
        operation_id="cells_patch", request=serializers.CellPatch, responses={200: serializers.Override, **PROBLEMS}
    )
    def patch(self, request: Request, name: str) -> Response:
        """Pin the cell to a role, or drain it. Returns the override that was set."""
        run, cell = self._cell(request, name)
        body = serializers.CellPatch(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = body.validated_data
        role = wanted.get("desired_role")
        if bool(role) == wanted["suspend"]:
            raise ValidationError({"desired_role": "give either desired_role or suspend: true"})
        row = set_override(
            run,
            user=viewer_of(request).user,
            kind="drain" if wanted["suspend"] else "pin",
            cell_index=cell.index,
            value={"role": role} if role else {},
            reason=wanted["reason"],
            expires_at=timezone.now() + timedelta(seconds=wanted["expires_in_s"]),
            unsafe=wanted["unsafe"],
        )
        return Response(serializers.Override(row).data)

    @staticmethod
    def _cell(request: Request, name: str) -> tuple[Any, Any]:
        run_id, _, index = name.partition("-")
        run = access.run_for(viewer_of(request), int(run_id))
        cell = next((row for row in cell_queries.cells_of(run) if row.index == int(index)), None)
        if cell is None:
            raise NotFound(f"run {run.pk} has no cell {index}")
        return run, cell


class Decisions(APIView):
    @extend_schema(
        operation_id="decisions_list",
        parameters=[*PAGE, OpenApiParameter("accepted", bool), OpenApiParameter("kind", str)],
        responses={200: serializers.paged("Decision", serializers.Decision), **PROBLEMS},
    )
    def get(self, request: Request, run_id: int) -> Response:
        """Newest first, refusals too."""
        run = access.run_for(viewer_of(request), run_id)
        limit = paging.limit_of(request)
        rows = decision_queries.decisions_of(
            run, limit=limit + 1, before=paging.cursor_of(request), accepted=flag_of(request, "accepted"),
            kind=request.query_params.get("kind", "")[:32],
        )  # fmt: skip
        next_key = rows[limit - 1].number if len(rows) > limit else None
        return Response(paging.page(serializers.Decision(rows[:limit], many=True).data, next_key))


class Batches(APIView):
    @extend_schema(
        operation_id="batches_list", responses={200: serializers.paged("Batch", serializers.Batch), **PROBLEMS}
    )
    def get(self, request: Request, run_id: int) -> Response:
        """All batches, newest first."""
        run = access.run_for(viewer_of(request), run_id)
        return Response(paging.page(serializers.Batch(batch_queries.batches_of(run), many=True).data, None))


class Overrides(APIView):
    scopes: ClassVar = {"POST": access.OPERATE}

    @extend_schema(
        operation_id="overrides_list", responses={200: serializers.paged("Override", serializers.Override), **PROBLEMS}
    )
    def get(self, request: Request, run_id: int) -> Response:
        """Overrides in force."""
        run = access.run_for(viewer_of(request), run_id)
        rows = override_queries.in_force(run, timezone.now())
        return Response(paging.page(serializers.Override(rows, many=True).data, None))

    @extend_schema(
        operation_id="overrides_set", request=serializers.NewOverride, responses={201: serializers.Override, **PROBLEMS}
    )
    def post(self, request: Request, run_id: int) -> Response:
        """Set an override: the scheduler obeys it from its next decision on."""
        viewer = viewer_of(request)
        run = access.run_for(viewer, run_id)
        body = serializers.NewOverride(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = dict(body.validated_data)
        expires_at = timezone.now() + timedelta(seconds=wanted.pop("expires_in_s"))
        row = set_override(run, user=viewer.user, expires_at=expires_at, **wanted)
        return Response(serializers.Override(row).data, status=201)


class OverrideItem(APIView):
    scopes: ClassVar = {"DELETE": access.OPERATE, "PATCH": access.OPERATE}

    @extend_schema(operation_id="overrides_release", responses={200: serializers.Override, **PROBLEMS})
    def delete(self, request: Request, run_id: int, override_id: int) -> Response:
        """End an override before it expires."""
        viewer = viewer_of(request)
        run = access.run_for(viewer, run_id)
        return Response(serializers.Override(release_override(_override(run, override_id), user=viewer.user)).data)

    @extend_schema(
        operation_id="overrides_extend",
        request=serializers.OverridePatch,
        responses={200: serializers.Override, **PROBLEMS},
    )
    def patch(self, request: Request, run_id: int, override_id: int) -> Response:
        """Let an override hold for so long from now on. `row_version` refuses when somebody changed it meanwhile."""
        viewer = viewer_of(request)
        run = access.run_for(viewer, run_id)
        body = serializers.OverridePatch(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = body.validated_data
        row = extend_override(
            _override(run, override_id), user=viewer.user, row_version=wanted.get("row_version"),
            expires_at=timezone.now() + timedelta(seconds=wanted["expires_in_s"]),
        )  # fmt: skip
        return Response(serializers.Override(row).data)


def _override(run: Any, override_id: int) -> Any:
    row = override_queries.override_of(run, override_id)
    if row is None:
        raise NotFound(f"override {override_id} does not exist")
    return row


class OverridePreview(APIView):
    @extend_schema(
        operation_id="overrides_preview",
        request=serializers.OverrideOrder,
        responses={200: serializers.OverrideDifference, **PROBLEMS},
    )
    def post(self, request: Request, run_id: int) -> Response:
        """What the scheduler would decide otherwise at this moment with this override. Changes nothing."""
        run = access.run_for(viewer_of(request), run_id)
        body = serializers.OverrideOrder(data=request.data)
        body.is_valid(raise_exception=True)
        found = preview_override(run, **body.validated_data)
        return Response(serializers.OverrideDifference(found).data)
