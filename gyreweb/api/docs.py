"""The API as a page for people: our own plain rendering of the OpenAPI schema, so that the strict CSP holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from drf_spectacular.generators import SchemaGenerator

from agents.web.api_tokens import tokens_of
from gyreweb.pages.shell import page, show, viewer_of

METHODS = ("get", "post", "patch", "put", "delete")


@dataclass(frozen=True)
class Operation:
    id: str
    method: str
    path: str
    text: str
    parameters: list[dict[str, Any]]
    body: list[tuple[str, dict[str, Any], bool]]
    answers: list[tuple[str, str]]


@lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
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
        parameters=item.get("parameters", []),
        body=_fields(content.get("schema", {})),
        answers=[(status, _answer(answer)) for status, answer in item["responses"].items()],
    )


def _named(reference: dict[str, Any]) -> str:
    return str(reference.get("$ref", "")).rsplit("/", 1)[-1]


def _fields(reference: dict[str, Any]) -> list[tuple[str, dict[str, Any], bool]]:
    found = schema()["components"]["schemas"].get(_named(reference), {})
    required = set(found.get("required", []))
    return [(name, spec, name in required) for name, spec in found.get("properties", {}).items()]


def _answer(answer: dict[str, Any]) -> str:
    for content in answer.get("content", {}).values():
        return _named(content.get("schema", {})) or "JSON"
    return answer.get("description", "") or "no body"


@page
def api_docs(request: HttpRequest) -> HttpResponse:
    shapes = {name: _fields({"$ref": name}) for name in schema()["components"]["schemas"]}
    context = {"operations": operations(), "shapes": shapes, "tokens": tokens_of(viewer_of(request).project_ids)}
    return show(request, "pages/api_docs.html", context, section="api_docs")
