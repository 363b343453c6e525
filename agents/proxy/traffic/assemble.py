"""Replies on the wire to replies of a capture: `{"id", "content" | "message" | "output", "usage"}`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson


def reply_of(raw: bytes, content_type: str) -> dict[str, Any] | None:
    """What a whole body or a stream of events says; None for one that is no reply. A stream may have broken off."""
    if "event-stream" not in content_type:
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return None
        return _kept(value) if isinstance(value, dict) else None
    events = list(_events(raw))
    if any("choices" in event for event in events):
        return _chat(events)
    if any(str(event.get("type", "")).startswith("response.") for event in events):
        return _responses(events)
    if any(event.get("type") == "message_start" for event in events):
        return _messages(events)
    return None


def _kept(value: dict[str, Any]) -> dict[str, Any] | None:
    names = ("id", "content", "choices", "message", "output", "stop_reason", "usage")
    kept = {name: value[name] for name in names if name in value}
    return kept if {"content", "choices", "message", "output"} & kept.keys() else None


def _events(raw: bytes) -> Iterator[dict[str, Any]]:
    for line in raw.splitlines():
        if line.startswith(b"data:"):
            try:
                value = orjson.loads(line[5:].strip())
            except orjson.JSONDecodeError:
                continue
            if isinstance(value, dict):
                yield value


def _chat(events: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    found: dict[str, Any] = {}
    for event in events:
        found["id"] = event.get("id", found.get("id"))
        if event.get("usage"):
            found["usage"] = event["usage"]
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            for name in ("content", "reasoning_content", "reasoning"):
                if delta.get(name):
                    message[name] = (message.get(name) or "") + delta[name]
            for part in delta.get("tool_calls") or []:
                call = calls.setdefault(
                    part.get("index", len(calls)), {"type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] = part.get("id") or call.get("id", "")
                function = part.get("function") or {}
                call["function"]["name"] += function.get("name") or ""
                call["function"]["arguments"] += function.get("arguments") or ""
    if calls:
        message["tool_calls"] = [calls[i] for i in sorted(calls)]
    return found | {"message": message}


def _responses(events: list[dict[str, Any]]) -> dict[str, Any]:
    output: dict[int, Any] = {}
    found: dict[str, Any] = {}
    for event in events:
        response = event.get("response")
        if isinstance(response, dict):
            found["id"] = response.get("id", found.get("id"))
            if response.get("usage"):
                found["usage"] = response["usage"]
            for i, item in enumerate(response.get("output") or []):
                output[i] = item
        if event.get("type") == "response.output_item.done":
            output[event.get("output_index", len(output))] = event.get("item")
    return found | {"output": [output[i] for i in sorted(output)]}


def _messages(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Blocks that were never closed are left out, as clients leave them out: all but texts."""
    found: dict[str, Any] = {"content": []}
    block: dict[str, Any] = {}
    arguments = ""
    for event in events:
        kind, delta = event.get("type"), event.get("delta") or {}
        if kind == "message_start":
            message = event.get("message") or {}
            found["id"], found["usage"] = message.get("id"), dict(message.get("usage") or {})
        elif kind == "content_block_start":
            block, arguments = dict(event.get("content_block") or {}), ""
        elif kind == "content_block_delta":
            arguments += delta.get("partial_json", "")
            for name, text in (("text", delta.get("text")), ("thinking", delta.get("thinking"))):
                if text:
                    block[name] = block.get(name, "") + text
            if delta.get("signature"):
                block["signature"] = delta["signature"]
        elif kind == "content_block_stop":
            if block.get("type") == "tool_use":
                block["input"] = orjson.loads(arguments) if arguments else block.get("input", {})
            found["content"].append(block)
            block = {}
        elif kind == "message_delta":
            found["stop_reason"] = delta.get("stop_reason")
            found["usage"] = found.get("usage", {}) | (event.get("usage") or {})
    if block.get("text"):
        found["content"].append(block)
    return found
