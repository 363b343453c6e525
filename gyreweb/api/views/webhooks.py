"""Webhooks: make, list, delete, test, and the log of what was sent."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers as s
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.actions.errors import NotFound
from agents.web import access
from gyreweb.api import paging, serializers
from gyreweb.api.auth import viewer_of
from gyreweb.api.views.runs import PAGE, PROBLEMS, project_of
from gyreweb.webhooks import actions
from gyreweb.webhooks import models as m


class Webhook(s.Serializer[Any]):
    id = s.IntegerField(source="pk")
    project = s.CharField(source="project.slug")
    url = s.CharField()
    topics = s.ListField(child=s.CharField(), help_text="Empty: all.")
    enabled = s.BooleanField()
    disabled_reason = s.CharField()
    created_at = s.DateTimeField()


class MadeWebhook(Webhook):
    secret = s.CharField(help_text="What the receiver verifies messages with. It is not shown again.")


class Delivery(s.Serializer[Any]):
    """One message to a webhook, and what became of it."""

    id = s.IntegerField(source="pk")
    message_id = s.CharField(help_text="The header webhook-id.")
    topic = s.CharField()
    run = s.IntegerField(source="run_id", allow_null=True)
    event_seq = s.IntegerField(allow_null=True)
    body = s.CharField()
    state = s.CharField(help_text="queued, delivered or failed")
    attempts = s.IntegerField()
    next_at = s.DateTimeField()
    last_status = s.IntegerField(allow_null=True)
    last_error = s.CharField()
    created_at = s.DateTimeField()
    delivered_at = s.DateTimeField(allow_null=True)


def _visible(viewer: access.Viewer) -> Any:
    rows = m.Webhook.objects.select_related("project").order_by("pk")
    return rows if viewer.project_ids is None else rows.filter(project_id__in=viewer.project_ids)


def _hook(request: Request, webhook_id: int) -> Any:
    hook = _visible(viewer_of(request)).filter(pk=webhook_id).first()
    if hook is None:
        raise NotFound(f"webhook {webhook_id} does not exist")
    return hook


class Webhooks(APIView):
    scopes: ClassVar = {"GET": access.ADMIN, "POST": access.ADMIN}

    @extend_schema(operation_id="webhooks_list", responses={200: serializers.paged("Webhook", Webhook), **PROBLEMS})
    def get(self, request: Request) -> Response:
        return Response(paging.page(Webhook(_visible(viewer_of(request)), many=True).data, None))

    @extend_schema(
        operation_id="webhooks_create", request=serializers.NewWebhook, responses={201: MadeWebhook, **PROBLEMS}
    )
    def post(self, request: Request) -> Response:
        """Tell an address what happens to the project's runs from now on. The answer has the secret, this once."""
        body = serializers.NewWebhook(data=request.data)
        body.is_valid(raise_exception=True)
        viewer, wanted = viewer_of(request), body.validated_data
        project = project_of(viewer, wanted.get("project"))
        hook = actions.create_webhook(project=project, user=viewer.user, url=wanted["url"], topics=wanted["topics"])
        return Response(MadeWebhook(hook).data, status=201)


class WebhookItem(APIView):
    scopes: ClassVar = {"DELETE": access.ADMIN}

    @extend_schema(operation_id="webhooks_delete", responses={204: None, **PROBLEMS})
    def delete(self, request: Request, webhook_id: int) -> Response:
        """Delete it with its log; what waits is not sent any more."""
        actions.delete_webhook(_hook(request, webhook_id))
        return Response(status=204)


class TestWebhook(APIView):
    scopes: ClassVar = {"POST": access.ADMIN}

    @extend_schema(operation_id="webhooks_test", request=None, responses={202: Delivery, **PROBLEMS})
    def post(self, request: Request, webhook_id: int) -> Response:
        """Send a message of the type `webhook.test`; `deliveries` says what became of it."""
        row = actions.send_test(_hook(request, webhook_id), user=viewer_of(request).user)
        return Response(Delivery(row).data, status=202)


class Deliveries(APIView):
    scopes: ClassVar = {"GET": access.ADMIN}

    @extend_schema(
        operation_id="webhooks_deliveries",
        parameters=[*PAGE, OpenApiParameter("state", str, enum=m.Delivery.State.values)],
        responses={200: serializers.paged("Delivery", Delivery), **PROBLEMS},
    )
    def get(self, request: Request, webhook_id: int) -> Response:
        """Messages, newest first. Those that are over are kept for 30 days."""
        limit, cursor = paging.limit_of(request), paging.cursor_of(request)
        rows = _hook(request, webhook_id).deliveries.order_by("-pk")
        if cursor is not None:
            rows = rows.filter(pk__lt=cursor)
        if state := request.query_params.get("state", ""):
            rows = rows.filter(state=state)
        found = list(rows[: limit + 1])
        next_key = found[limit - 1].pk if len(found) > limit else None
        return Response(paging.page(Delivery(found[:limit], many=True).data, next_key))
