"""Captured replies as canonical messages: each is read as the echo that its own dialect would send back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.proxy import canonical
from agents.proxy.canonical import BadRequest, Message
from agents.proxy.dialects.base import Dialect

_ASKED = {"role": "user", "content": "."}


def reply_message(dialect: Dialect, reply: Mapping[str, Any]) -> Message:
    """The reply, its reasoning beside it as `reasoning_content`. Raises BadRequest for one that cannot be read."""
    if isinstance(reply.get("output"), list):
        items = reply["output"]
        messages = dialect.parse({"input": [_ASKED, *items]}).messages[1:]
        reasoning = "\n".join(_summary(item) for item in items if isinstance(item, dict))
    elif isinstance(reply.get("content"), list):
        blocks = reply["content"]
        messages = dialect.parse({"messages": [_ASKED, {"role": "assistant", "content": blocks}]}).messages[1:]
        reasoning = "\n".join(str(b.get("thinking", "")) for b in blocks if isinstance(b, dict))
    else:
        said = _chat_message(reply)
        messages = dialect.parse({"messages": [_ASKED, {**said, "role": "assistant"}]}).messages[1:]
        reasoning = str(said.get("reasoning_content") or said.get("reasoning") or "")
    turns = [m for m in messages if m["role"] == "assistant"]
    message = canonical.assistant(
        "".join(m["content"] for m in turns), [use for m in turns for use in m.get("tool_calls", ())]
    )
    return message | ({"reasoning_content": reasoning.strip()} if reasoning.strip() else {})


def _chat_message(reply: Mapping[str, Any]) -> dict[str, Any]:
    choices = reply.get("choices")
    found = reply.get("message")
    if found is None and isinstance(choices, list) and choices and isinstance(choices[0], dict):
        found = choices[0].get("message")
    if not isinstance(found, dict):
        raise BadRequest("a reply needs content, output, message or choices")
    return found


def _summary(item: Mapping[str, Any]) -> str:
    parts = item.get("summary")
    if item.get("type") != "reasoning" or not isinstance(parts, list):
        return ""
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
