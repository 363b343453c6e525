"""The models listing, in a shape that the clients of every dialect read: one model, whatever it is called."""

from __future__ import annotations

from typing import Any

import orjson

from agents.proxy.dialects.base import MODEL


def listing(context_tokens: int) -> bytes:
    return orjson.dumps(
        {
            "object": "list",
            "data": [entry(MODEL, context_tokens)],
            "has_more": False,
            "first_id": MODEL,
            "last_id": MODEL,
        }
    )


def entry(name: str, context_tokens: int) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "owned_by": "gyre",
        "display_name": name,
        "context_length": context_tokens,
    }


def one(name: str, context_tokens: int) -> bytes:
    return orjson.dumps(entry(name, context_tokens))
