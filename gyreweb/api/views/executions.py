"""Executions: list with the page's filters, detail, tree, cancel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.actions.cancel_execution import cancel_execution
from agents.web import access, calls, outline
from agents.web import executions as execution_queries
from gyreweb.api import paging, serializers
from gyreweb.api.auth import viewer_of
from gyreweb.api.views.runs import PAGE, PROBLEMS

FILTERS = [
    OpenApiParameter("state", str, enum=[*execution_queries.STATES, "live"]),
    OpenApiParameter("outcome", str, enum=execution_queries.OUTCOMES),
    OpenApiParameter("kind", str, enum=["training", "evaluation"]),
    OpenApiParameter("group", int),
    OpenApiParameter("batch", int),
    OpenApiParameter("reward_from", float),
    OpenApiParameter("reward_below", float),
    OpenApiParameter("q", str),
]


class Executions(APIView):
    @extend_schema(
        operation_id="executions_list",
        parameters=[*PAGE, *FILTERS],
        responses={200: serializers.paged("Execution", serializers.Execution), **PROBLEMS},
    )
    def get(self, request: Request, run_id: int) -> Response:
        """Newest first."""
        run = access.run_for(viewer_of(request), run_id)
        filters = execution_queries.Filters.from_query(request.query_params)
        filters = replace(filters, before=paging.cursor_of(request))
        rows, next_key = execution_queries.page(run, filters, paging.limit_of(request))
        return Response(paging.page(serializers.Execution(rows, many=True).data, next_key))


class ExecutionItem(APIView):
    @extend_schema(operation_id="executions_get", responses={200: serializers.ExecutionDetail, **PROBLEMS})
    def get(self, request: Request, execution_id: int) -> Response:
        return Response(serializers.ExecutionDetail(access.execution_for(viewer_of(request), execution_id)).data)


class ExecutionTree(APIView):
    @extend_schema(operation_id="executions_tree", responses={200: serializers.Tree, **PROBLEMS})
    def get(self, request: Request, execution_id: int) -> Response:
        """The outline of the newest attempt: stretches of calls, what was drawn, and why not."""
        found = access.execution_for(viewer_of(request), execution_id)
        stretches = outline.build(calls.facts_of(found))
        outline.explain(stretches, calls.selection_of(found))
        rows: list[dict[str, Any]] = [
            {
                "depth": row.depth,
                "role": row.role,
                "calls": [call.number for call in row.calls],
                "added_tokens": row.added_tokens,
                "sampled_tokens": row.sampled_tokens,
                "trained_tokens": row.trained_tokens,
                "draw": row.draw,
                "why": row.why,
            }
            for row in stretches
        ]
        return Response(serializers.Tree({"execution": found.pk, "attempt": found.attempt, "rows": rows}).data)


class CancelExecution(APIView):
    scopes: ClassVar = {"POST": access.OPERATE}

    @extend_schema(
        operation_id="executions_cancel",
        request=serializers.Reason,
        responses={200: serializers.ExecutionDetail, **PROBLEMS},
    )
    def post(self, request: Request, execution_id: int) -> Response:
        """A cancelled execution has no reward and no vote."""
        viewer = viewer_of(request)
        found = access.execution_for(viewer, execution_id)
        body = serializers.Reason(data=request.data)
        body.is_valid(raise_exception=True)
        cancel_execution(found, user=viewer.user, reason=body.validated_data["reason"])
        return Response(serializers.ExecutionDetail(access.execution_for(viewer, execution_id)).data)
