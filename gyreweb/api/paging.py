"""Pages by key: `cursor` is the key of the last row seen, so a page costs the same wherever it lies.

That a declared number is one, gyreweb.api.query has seen to.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

DEFAULT_LIMIT = 50
MAX_LIMIT = 500


def limit_of(request: Request, default: int = DEFAULT_LIMIT) -> int:
    raw = request.query_params.get("limit", "")
    if not raw:
        return default
    if not 1 <= int(raw) <= MAX_LIMIT:
        raise ValidationError({"limit": f"a whole number from 1 to {MAX_LIMIT}, got {raw[:20]!r}"})
    return int(raw)


def number_of(request: Request, name: str, default: int = 0) -> int:
    return int(request.query_params.get(name, "") or default)


def cursor_of(request: Request) -> int | None:
    """The key in `cursor`, or None for the first page."""
    raw = request.query_params.get("cursor", "")
    if not raw:
        return None
    try:
        return int(base64.urlsafe_b64decode(raw.encode("ascii") + b"=" * (-len(raw) % 4)).decode("ascii"))
    except (binascii.Error, ValueError):
        raise ValidationError({"cursor": "not a cursor of this list; take it from `next`"}) from None


def page(results: list[Any], next_key: int | None) -> dict[str, Any]:
    """`next` is null on the last page, else the cursor of the next one."""
    cursor = None if next_key is None else base64.urlsafe_b64encode(str(next_key).encode()).decode().rstrip("=")
    return {"results": results, "next": cursor}
