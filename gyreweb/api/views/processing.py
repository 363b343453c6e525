"""Groups, verdicts, selection, reports and exports: what became of what was recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.actions.reassess_execution import request_reassessment, why_not
from agents.actions.reassess_executions import reassess_executions
from agents.exports.formats import CONTENT_TYPES, encoded
from agents.exports.rows import count_of, rows_of
from agents.exports.tables import CSV_TABLES, FORMATS, TABLES
from agents.replay import replay_draws
from agents.report import report
from agents.web import access, quarantine
from agents.web import executions as execution_queries
from agents.web import groups as group_queries
from agents.web.divergence import divergences
from agents.web.outline import REASONS
from gyreweb.api import paging, serializers, shapes
from gyreweb.api.auth import viewer_of
from gyreweb.api.views.executions import FILTERS
from gyreweb.api.views.runs import PAGE, PROBLEMS
from gyreweb.pages.tokenizer import token_texts
from scheduler.config import RunConfig


class Groups(APIView):
    @extend_schema(
        operation_id="groups_list",
        parameters=[
            *PAGE,
            OpenApiParameter("state", str, enum=group_queries.STATES),
            OpenApiParameter("kind", str, enum=["training", "evaluation"]),
            OpenApiParameter("unresolved", bool, description="Only groups with unresolved executions."),
            OpenApiParameter("q", str),
        ],
        responses={200: serializers.paged("Group", shapes.Group), **PROBLEMS},
    )
    def get(self, request: Request, run_id: int) -> Response:
        """Newest first; training groups unless `kind` says otherwise."""
        run = access.run_for(viewer_of(request), run_id)
        filters = group_queries.Filters.from_query(request.query_params)
        filters = replace(filters, before=paging.cursor_of(request))
        rows, next_key = group_queries.page(run, filters, paging.limit_of(request))
        return Response(paging.page(shapes.Group(rows, many=True).data, next_key))


class GroupItem(APIView):
    @extend_schema(operation_id="groups_get", responses={200: shapes.Group, **PROBLEMS})
    def get(self, request: Request, group_id: int) -> Response:
        return Response(shapes.Group(group_queries.row_by_id(viewer_of(request), group_id)).data)


class Assessments(APIView):
    @extend_schema(operation_id="assessments_list", responses={200: shapes.Assessments, **PROBLEMS})
    def get(self, request: Request, execution_id: int) -> Response:
        """Every verdict and every request for another one, newest first."""
        found = access.execution_for(viewer_of(request), execution_id)
        refusal = why_not(found)
        values = {
            "results": execution_queries.assessments(found),
            "reassessments": execution_queries.reassessments(found),
            "may_be_reassessed": not refusal,
            "why_not": refusal,
        }
        return Response(shapes.Assessments(values).data)


class Reassess(APIView):
    scopes: ClassVar = {"POST": access.OPERATE}

    @extend_schema(
        operation_id="executions_reassess",
        request=serializers.Reason,
        responses={202: shapes.Reassessment, **PROBLEMS},
    )
    def post(self, request: Request, execution_id: int) -> Response:
        """Have the evaluator run again on what the execution left. The verdict is a new row; ask `assessments` for it.

        It never changes what a batch has admitted. 409 says why an execution cannot be assessed again.
        """
        viewer = viewer_of(request)
        found = access.execution_for(viewer, execution_id)
        body = serializers.Reason(data=request.data)
        body.is_valid(raise_exception=True)
        reassessment = request_reassessment(found, user=viewer.user, reason=body.validated_data["reason"])
        return Response(shapes.Reassessment(reassessment).data, status=202)


class ReassessMany(APIView):
    scopes: ClassVar = {"POST": access.OPERATE}

    @extend_schema(
        operation_id="runs_reassess",
        parameters=FILTERS,
        request=serializers.Reason,
        responses={202: shapes.Asked, **PROBLEMS},
    )
    def post(self, request: Request, run_id: int) -> Response:
        """Request another assessment of every finished execution that the list's filters select."""
        viewer = viewer_of(request)
        run = access.run_for(viewer, run_id)
        body = serializers.Reason(data=request.data)
        body.is_valid(raise_exception=True)
        filters = execution_queries.Filters.from_query(request.query_params)
        asked = reassess_executions(run, filters, user=viewer.user, reason=body.validated_data["reason"])
        return Response(shapes.Asked(asked).data, status=202)


class Selection(APIView):
    @extend_schema(operation_id="executions_selection", responses={200: shapes.Selection, **PROBLEMS})
    def get(self, request: Request, execution_id: int) -> Response:
        """Bounds, draws, and why each other call was passed over; drawn again from the recorded calls and compared."""
        found = access.execution_for(viewer_of(request), execution_id)
        replayed = replay_draws(found)
        values = {
            "execution": found.pk,
            "attempt": found.attempt,
            "bounds": execution_queries.selection_record(found),
            "draws": execution_queries.draws(found),
            "passed_over": [
                {"call": call, "reason_code": code, "reason": REASONS.get(code, code)}
                for call, code in found.exclusions
            ],
            "replays_equal": replayed.agree,
            "first_difference": replayed.difference,
        }
        return Response(shapes.Selection(values).data)


class Report(APIView):
    @extend_schema(operation_id="runs_report", responses={200: shapes.Report, **PROBLEMS})
    def get(self, request: Request, run_id: int) -> Response:
        """Tokens from recorded to selected, what was saved against named baselines, and what was left out and why."""
        run = access.run_for(viewer_of(request), run_id)
        return Response(shapes.Report(report(run).to_json()).data)


class Quarantined(APIView):
    @extend_schema(
        operation_id="runs_quarantined",
        parameters=[*PAGE, OpenApiParameter("reason", str)],
        responses={200: serializers.paged("RecordedCall", shapes.RecordedCall), **PROBLEMS},
    )
    def get(self, request: Request, run_id: int) -> Response:
        """Calls that are recorded and never trained, newest first, each with its reason."""
        calls, next_key = _calls(request, run_id, "quarantined")
        return Response(paging.page(shapes.RecordedCall(calls, many=True).data, next_key))


class FalseForks(APIView):
    @extend_schema(
        operation_id="runs_false_forks",
        parameters=[*PAGE, OpenApiParameter("reason", str)],
        responses={200: serializers.paged("FalseFork", shapes.FalseFork), **PROBLEMS},
    )
    def get(self, request: Request, run_id: int) -> Response:
        """Calls that left recorded tokens of their conversation, with the first tokens that differ."""
        calls, next_key = _calls(request, run_id, "false_forks")
        rows = []
        for found in divergences(calls):
            folder = RunConfig.readable(found.call.execution.run.config)["policy_path"]
            texts = {side: "".join(token_texts(folder, getattr(found, side))) for side in ("expected", "found")}
            rows.append(vars(found) | {f"{side}_text": text for side, text in texts.items()})
        return Response(paging.page(shapes.FalseFork(rows, many=True).data, next_key))


def _calls(request: Request, run_id: int, kind: str) -> tuple[list[Any], int | None]:
    run = access.run_for(viewer_of(request), run_id)
    filters = quarantine.Filters.from_query({"list": kind, "reason": request.query_params.get("reason", "")})
    return quarantine.page(run, replace(filters, before=paging.cursor_of(request)), paging.limit_of(request))


class Export(APIView):
    @extend_schema(
        operation_id="runs_export",
        parameters=[
            OpenApiParameter("table", str, OpenApiParameter.PATH, enum=list(TABLES)),
            OpenApiParameter("extension", str, OpenApiParameter.PATH, enum=list(FORMATS)),
            *FILTERS,
        ],
        responses={
            **{
                (200, media.partition(";")[0]): OpenApiResponse(OpenApiTypes.BINARY, description="The table.")
                for media in CONTENT_TYPES.values()
            },
            **PROBLEMS,
        },
    )
    def get(self, request: Request, run_id: int, table: str, extension: str) -> Any:
        """One table of the run's ended executions as a stream, filtered like the list. CSV only of flat tables.

        `X-Total-Rows` says how many rows it has; how many bytes, nobody knows before they are made.
        """
        run = access.run_for(viewer_of(request), run_id)
        if table not in TABLES or extension not in FORMATS or (extension == "csv" and table not in CSV_TABLES):
            flat = f"; csv of {', '.join(sorted(CSV_TABLES))} only" if extension == "csv" else ""
            raise NotFound(f"no export {table}.{extension}; tables: {', '.join(TABLES)}; {', '.join(FORMATS)}{flat}")
        filters = execution_queries.Filters.from_query(request.query_params)
        pieces = encoded(TABLES[table], rows_of(table, run, filters), extension)
        reply = StreamingHttpResponse(
            _in_threads(pieces) if isinstance(request._request, ASGIRequest) else pieces,
            content_type=CONTENT_TYPES[extension],
        )
        reply["Content-Disposition"] = f'attachment; filename="run-{run.pk}-{table}.{extension}"'
        reply["X-Total-Rows"] = str(count_of(table, run, filters))
        return reply


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Each piece is made outside the event loop, when the reader is ready for it."""
    done = object()

    def following() -> Any:
        return next(pieces, done)

    try:
        while (piece := await sync_to_async(following)()) is not done:
            yield piece
    finally:
        await sync_to_async(close_old_connections)()
