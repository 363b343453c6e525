"""The reference harness for the sandbox server: what its first model call builds is built once, before any fork."""

from __future__ import annotations

import encodings.idna  # noqa: F401  (looked up by name when a host is resolved)

import httpx
from openai import OpenAI

from agents.harness.reference.program import MAIN_TOOLS, main

__all__ = ["main"]

_CALL = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
_REPLY = {
    "id": "1",
    "object": "chat.completion",
    "created": 0,
    "model": "policy",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [_CALL]}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def _warm_up() -> None:
    """One request and reply through the client, over no network."""
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, json=_REPLY))
    with OpenAI(base_url="http://none/v1", api_key="none", http_client=httpx.Client(transport=transport)) as client:
        reply = client.chat.completions.create(
            model="policy",
            messages=[
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": "", "tool_calls": [_CALL]},  # type: ignore[list-item]
                {"role": "tool", "tool_call_id": "1", "content": ""},
            ],
            tools=MAIN_TOOLS,  # type: ignore[arg-type]
        )
        reply.choices[0].message.model_dump()


_warm_up()
