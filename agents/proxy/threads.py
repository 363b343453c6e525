"""Requests that name the reply they follow and bring only what came after it: the record has the rest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents.proxy.canonical import Message, ModelRequest, Tool
from agents.proxy.replies import Reply


def resumed(request: ModelRequest, rows: Sequence[Any]) -> ModelRequest:
    """The whole request. `rows`: the calls of agents_call up to the one that it follows, the first call first."""
    messages: list[Message] = []
    tools: list[Tool] = []
    before: Any = None
    for row in rows:
        added: list[Message] = row.messages
        if added and added[0]["role"] == "tools":
            tools, messages, added = added[0]["tools"], [], added[1:]
        elif before is not None and row.prefix_tokens > before.input_tokens:
            messages = [*messages, _said(before)]
        messages = [*messages, *added]
        before = row
    if request.traits.get("has_instructions") and messages[:1] and messages[0]["role"] == "system":
        messages = messages[1:]
    own = list(request.messages)
    opening = [own.pop(0)] if request.traits.get("has_instructions") else []
    if not request.tools and request.traits.get("inherits_tools"):
        request = replace(request, tools=tools)
    return replace(request, messages=[*opening, *messages, _said(before), *own], follows="")


def _said(row: Any) -> Message:
    return Reply.from_json(row.reply).message()
