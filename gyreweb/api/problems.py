"""Every error is a problem document (RFC 9457) with media type application/problem+json."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import set_rollback

from agents.actions.errors import NotFound, Refused
from agents.config import BadConfig


class ProblemRenderer(JSONRenderer):
    media_type = "application/problem+json"
    format = "problem"


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """What an action, a serializer or DRF raises, as a problem. Anything else is a 500 and stays unhandled."""
    headers: dict[str, str] = {}
    errors: dict[str, Any] | None = None
    if isinstance(error, BadConfig):
        status, detail, errors = 422, "The settings cannot be used; nothing was started.", error.problems
    elif isinstance(error, Http404 | NotFound):
        status, detail = 404, str(error) or "Not found."
    elif isinstance(error, Refused):
        status, detail = 409, str(error)
    elif isinstance(error, RequestDataTooBig):
        status, detail = 413, f"The body is too large; at most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes are taken."
    elif isinstance(error, PermissionDenied):
        status, detail = 403, str(error) or "Not allowed."
    elif isinstance(error, exceptions.APIException):
        status, detail, errors = _of_drf(error)
        if header := getattr(error, "auth_header", None):
            headers["WWW-Authenticate"] = header
        if isinstance(error, exceptions.MethodNotAllowed) and (request := context.get("request")):
            headers["Allow"] = ", ".join(context["view"].allowed_methods) if request else ""
    else:
        return None
    set_rollback()
    body = problem(status, detail, errors)
    response = Response(body, status=status, headers=headers, content_type=ProblemRenderer.media_type)
    if request := context.get("request"):
        request.accepted_renderer, request.accepted_media_type = ProblemRenderer(), ProblemRenderer.media_type
    return response


def problem(status: int, detail: str, errors: dict[str, Any] | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    if errors:
        body["errors"] = errors
    return body


@csrf_exempt
def no_such_address(request: HttpRequest, rest: str | None = None) -> JsonResponse:
    """What lies under /api/v1 and is no address of it, for every method."""
    return answer(404, f"{request.path} is no address of this API; /api/docs/ lists them.")


def answer(status: int, detail: str) -> JsonResponse:
    """A problem outside of any view of the API."""
    return JsonResponse(problem(status, detail), status=status, content_type=ProblemRenderer.media_type)


def _of_drf(error: exceptions.APIException) -> tuple[int, str, dict[str, Any] | None]:
    if isinstance(error, exceptions.ValidationError):
        errors = error.detail if isinstance(error.detail, dict) else {"request": error.detail}
        flat = {name: _text(value) for name, value in errors.items()}
        return 422, "The request does not fit; see `errors`.", flat
    return error.status_code, _text(error.detail), None


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_text(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return " ".join(_text(part) for part in value)
    return str(value)
