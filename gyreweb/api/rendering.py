"""Answers as JSON, also where a row holds a number that JSON has not."""

from __future__ import annotations

import math
from typing import Any

from rest_framework.renderers import JSONRenderer


class StoredNumbersRenderer(JSONRenderer):
    """What is not finite is null: a column of JSON can hold 1e400, which reads as infinite."""

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        try:
            return super().render(data, accepted_media_type, renderer_context)
        except ValueError:
            return super().render(_finite(data), accepted_media_type, renderer_context)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
