"""Query parameters, held against what the OpenAPI schema declares of the operation: nothing misspelt is passed over."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

FLAGS = {"true": True, "1": True, "false": False, "0": False}
#: Digits of the longest number that any column holds.
MAX_DIGITS = 18


class KnownQuery(BasePermission):
    """Refuses a query parameter that the operation does not declare, and a value that it cannot have.

    A permission because every view asks those, once it is known who calls and that they may.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if problems := problems_of(request.query_params, declared(view, str(request.method))):
            raise ValidationError(problems)
        return True


def declared(view: Any, method: str) -> dict[str, OpenApiParameter]:
    """The query parameters in the `extend_schema` of the view's method."""
    handler = getattr(view, method.lower(), None)
    made = getattr(handler, "kwargs", {}).get("schema")
    if made is None:
        return {}
    schema = made()
    schema.view, schema.method = view, method
    found = schema.get_override_parameters()
    return {parameter.name: parameter for parameter in found if parameter.location == OpenApiParameter.QUERY}


def problems_of(query: Any, known: dict[str, OpenApiParameter]) -> dict[str, list[str]]:
    """What is wrong, by parameter. An empty value is as good as none."""
    names = ", ".join(known) or "none"
    problems = {name: [f"unknown query parameter; known ones here: {names}"] for name in query if name not in known}
    for name, parameter in known.items():
        if (value := query.get(name, "")) and (why := _why_not(parameter, value)):
            problems[name] = [why]
    return problems


def flag_of(request: Request, name: str) -> bool | None:
    """A declared `bool`; None when it is not given."""
    return FLAGS.get(request.query_params.get(name, "").lower())


def real_of(request: Request, name: str) -> float | None:
    """A declared `float`; None when it is not given."""
    raw = request.query_params.get(name, "")
    return float(raw) if raw else None


def _why_not(parameter: OpenApiParameter, value: str) -> str:
    if parameter.enum:
        choices = [str(choice) for choice in parameter.enum]
        return "" if value in choices else f"one of {', '.join(choices)}, got {value[:40]!r}"
    fits, words = _KINDS.get(parameter.type, (None, ""))
    return "" if fits is None or fits(value) else f"{words}, got {value[:40]!r}"


def _is_finite(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _is_whole(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) <= MAX_DIGITS


_KINDS: dict[Any, tuple[Callable[[str], bool], str]] = {
    int: (_is_whole, "a whole number of at least 0"),
    float: (_is_finite, "a number"),
    bool: (lambda value: value.lower() in FLAGS, "true or false"),
}
