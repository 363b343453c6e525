"""The reference harness for the sandbox server: what its first model call builds is built once, before any fork."""

from __future__ import annotations

import encodings.idna  # noqa: F401  (looked up by name when a host is resolved)

import httpcore  # noqa: F401  (imported by the first client that is to reach a network)
import httpx
from openai import OpenAI

from agents.harness.reference.program import MAIN_TOOLS, Session, Settings, echo, main, opening

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
    """One turn of the harness's own, over no network."""
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, json=_REPLY))
    with OpenAI(base_url="http://none/v1", api_key="none", http_client=httpx.Client(transport=transport)) as client:
        session = Session(Settings("http://none/v1", "none"), client)
        reply, *_ = session.ask(opening("", "x"), MAIN_TOOLS)
        echo(reply)


_warm_up()
