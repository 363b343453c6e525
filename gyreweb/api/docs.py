"""The API as a page for people: our own plain rendering of the OpenAPI schema, so that the strict CSP holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from agents.web.api_tokens import tokens_of
from gyreweb.api.schema import SCOPE
from gyreweb.pages.shell import page, show, viewer_of
from scheduler.config import allowed

METHODS = ("get", "post", "patch", "put", "delete")


@dataclass(frozen=True)
class Field:
    """One field of a shape. `choices` are the values that it may have, `allowed` is the range of a number in words,
    `shape` the component that it holds."""

    name: str
    kind: str
    text: str
    required: bool
    choices: list[Any]
    allowed: str = ""
    shape: str = ""


@dataclass(frozen=True)
class Operation:
    """`scope`: what the caller's token or login must allow."""

    id: str
    method: str
    path: str
    text: str
    scope: str
    parameters: list[dict[str, Any]]
    body: list[Field]
    answers: list[tuple[str, str]]


@lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return found


@lru_cache(maxsize=1)
def operations() -> list[Operation]:
    rows = []
    for path, item in schema()["paths"].items():
        for method in METHODS:
            if method in item:
                rows.append(_operation(path, method, item[method]))
    return rows


def _operation(path: str, method: str, item: dict[str, Any]) -> Operation:
    content = item.get("requestBody", {}).get("content", {}).get("application/json", {})
    return Operation(
        id=item["operationId"],
        method=method.upper(),
        path=path,
        text=item.get("description", ""),
        scope=item[SCOPE],
        parameters=item.get("parameters", []),
        body=_fields(_named(content.get("schema", {}))),
        answers=[(status, _answer(answer)) for status, answer in item["responses"].items()],
    )


def _named(reference: dict[str, Any]) -> str:
    return str(reference.get("$ref", "")).rsplit("/", 1)[-1]


def _component(name: str) -> dict[str, Any]:
    found: dict[str, Any] = schema()["components"]["schemas"].get(name, {})
    return found


def _fields(holder: str) -> list[Field]:
    found = _component(holder)
    required = set(found.get("required", []))
    return [_field(name, spec, name in required, holder) for name, spec in found.get("properties", {}).items()]


def _field(name: str, spec: dict[str, Any], required: bool, holder: str) -> Field:
    """A reference stands in the field itself, in its `allOf`, or in the items of its array."""
    inner = spec.get("items", spec)
    shape = _named(inner) or next((_named(part) for part in inner.get("allOf", [])), "")
    target = _component(shape)
    choices = target.get("enum") or inner.get("enum", [])
    kind = target.get("type", "object") if shape else inner.get("type", "object")
    kind = f"array of {kind}" if "items" in spec else kind
    return Field(
        name=name,
        kind=f"{kind} or null" if spec.get("nullable") else kind,
        text=spec.get("description", ""),
        required=required,
        choices=choices,
        allowed=allowed(name) if holder == "Settings" else "",
        shape="" if choices else shape,
    )


def _answer(answer: dict[str, Any]) -> str:
    for content in answer.get("content", {}).values():
        return _named(content.get("schema", {})) or "JSON"
    return answer.get("description", "") or "no body"


@lru_cache(maxsize=4)
def rendered(renderer: type[BaseRenderer]) -> bytes:
    written: bytes = renderer().render(schema(), renderer_context={})
    return written


class Schema(APIView):
    """The schema of this API, as YAML, or as JSON for who accepts that."""

    renderer_classes = [OpenApiYamlRenderer, OpenApiYamlRenderer2, OpenApiJsonRenderer, OpenApiJsonRenderer2]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        accepted = request.accepted_renderer
        body = rendered(type(accepted))  # type: ignore[arg-type]  # mypy holds that a class has no hash
        return HttpResponse(body, content_type=accepted.media_type)


@page
def api_docs(request: HttpRequest) -> HttpResponse:
    shapes = {name: _fields(name) for name, spec in schema()["components"]["schemas"].items() if "enum" not in spec}
    context = {"operations": operations(), "shapes": shapes, "tokens": tokens_of(viewer_of(request).project_ids)}
    return show(request, "pages/api_docs.html", context, section="api_docs")
