"""Anthropic Messages."""

from __future__ import annotations

from typing import Any

import orjson

from agents.proxy import canonical
from agents.proxy.canonical import BadRequest, Message, ModelRequest, Sampling
from agents.proxy.dialects.base import (
    FIELDS,
    Dialect,
    Head,
    StreamEncoder,
    asked,
    expect,
    expect_max_tokens,
    expect_messages,
    expect_stop,
)
from agents.proxy.replies import Event, Failure, Finish, ReasoningPiece, Reply, TextPiece, ToolUse

_FINISH = {"stop": "end_turn", "stop_sequence": "stop_sequence", "length": "max_tokens", "tool_calls": "tool_use"}
_TYPES = {
    "bad_request": "invalid_request_error",
    "too_long": "invalid_request_error",
    "not_found": "not_found_error",
    "thread_not_found": "not_found_error",
    "late": "timeout_error",
    "dead_key": "invalid_request_error",
    "too_large": "request_too_large",
    "headers_too_large": "request_too_large",
    "engine": "api_error",
    "broken": "api_error",
    "unavailable": "overloaded_error",
}
#: Wishes that are recorded; the run's settings decide.
_ASKED = ("temperature", "top_p", "top_k", "thinking", "tool_choice", "output_config")
#: What a provider would do besides sampling.
_PROVIDERS_WORK = {
    "mcp_servers": "no tool is run here; offer its tools as tools of your own",
    "container": "no code is run here",
    "compaction": "conversations are not compacted here; ask for a summary in a message",
}
#: Beginnings of the types of tools that the provider runs.
_PROVIDERS_TOOLS = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "mcp_toolset", "advisor_")
#: Arguments of the tools that clients run and whose schema is the API's own, by the beginning of their type.
_OWN_SCHEMAS = {
    "bash_": {"command": "string", "restart": "boolean"},
    "text_editor_": {
        "command": "string",
        "path": "string",
        "file_text": "string",
        "old_str": "string",
        "new_str": "string",
        "insert_line": "integer",
        "insert_text": "string",
        "view_range": "array",
    },
    "memory_": {
        "command": "string",
        "path": "string",
        "file_text": "string",
        "old_str": "string",
        "new_str": "string",
        "insert_line": "integer",
        "insert_text": "string",
        "old_path": "string",
        "new_path": "string",
        "view_range": "array",
    },
}


class AnthropicMessages(Dialect):
    name = "anthropic-messages"
    reply_id_prefix = "msg_"
    tool_id_prefix = "toolu_"
    fields = FIELDS | {*_PROVIDERS_WORK, *_ASKED, "max_tokens", "stop_sequences", "thread"}
    keep_alive = b'event: ping\ndata: {"type":"ping"}\n\n'
    request_id_header = b"request-id"

    def parse(self, body: dict[str, Any]) -> ModelRequest:
        for name, why in _PROVIDERS_WORK.items():
            if body.get(name):
                raise BadRequest(f"{name} is not supported: {why}")
        messages: list[Message] = []
        system = canonical.text_of(body.get("system"), "system")
        if system:
            messages.append({"role": "system", "content": system})
        for i, message in enumerate(expect_messages(body)):
            messages += _messages(message, f"messages[{i}]")
        thinking = expect(body, "thinking", dict, {})
        thread = expect(body, "thread", dict, {})
        return ModelRequest(
            dialect=self.name,
            messages=messages,
            tools=[_tool(t) for t in expect(body, "tools", list, []) if not _is_run_elsewhere(t)],
            sampling=Sampling(
                expect_max_tokens(body, "max_tokens"),
                expect_stop(body.get("stop_sequences"), "stop_sequences"),
                asked(body, *_ASKED),
            ),
            stream=bool(expect(body, "stream", bool, False)),
            model=str(body.get("model") or ""),
            continues_last=messages[-1]["role"] == "assistant",
            traits={
                "tool_choice": body.get("tool_choice") is not None,
                "output_format": bool((expect(body, "output_config", dict, {})).get("format")),
                "thinking": thinking.get("type") not in (None, "disabled"),
                "has_instructions": bool(system),
                "inherits_tools": True,
            },
            follows=str(thread.get("previous_message_id") or "").removeprefix(self.reply_id_prefix),
        )

    def stream(self, head: Head, request: ModelRequest) -> StreamEncoder:
        return _Stream(head)

    def whole(self, head: Head, request: ModelRequest, reply: Reply, finish: Finish) -> bytes:
        content = [_block(piece) for piece in reply.pieces()]
        message = _message_head(head)
        message |= {"content": content, "usage": _usage(head, finish)}
        message |= {"stop_reason": _FINISH[finish.reason], "stop_sequence": finish.stop_sequence}
        return orjson.dumps(message)

    def error(self, kind: str, message: str) -> bytes:
        return orjson.dumps(_error(kind, message))

    def status(self, kind: str) -> int:
        return {"unavailable": 529, "thread_not_found": 404}.get(kind) or super().status(kind)

    def too_long(self, input_tokens: int, limit: int) -> str:
        return f"prompt is too long: {input_tokens} tokens > {limit} maximum"


class _Stream(StreamEncoder):
    """At most one block is open at a time; its index rises with each block."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._index = -1
        self._open: type | None = None

    def start(self) -> bytes:
        message = _message_head(self._head) | {"content": [], "stop_reason": None, "stop_sequence": None}
        message["usage"] = {"input_tokens": self._head.input_tokens, "output_tokens": 0}
        return _sse("message_start", {"message": message})

    def event(self, event: Event) -> bytes:
        match event:
            case TextPiece(text):
                opened = self._enter(TextPiece, {"type": "text", "text": ""})
                return opened + self._delta(b'{"type":"text_delta","text":' + orjson.dumps(text) + b"}")
            case ReasoningPiece(text):
                opened = self._enter(ReasoningPiece, {"type": "thinking", "thinking": "", "signature": ""})
                return opened + self._delta(b'{"type":"thinking_delta","thinking":' + orjson.dumps(text) + b"}")
            case ToolUse():
                opened = self._close()
                opened += self._enter(ToolUse, {"type": "tool_use", "id": event.id, "name": event.name, "input": {}})
                partial = orjson.dumps(event.arguments_json)
                return opened + self._delta(b'{"type":"input_json_delta","partial_json":' + partial + b"}")
            case Finish():
                delta = {"stop_reason": _FINISH[event.reason], "stop_sequence": event.stop_sequence}
                end = self._close() + _sse("message_delta", {"delta": delta, "usage": _usage(self._head, event)})
                return end + _sse("message_stop", {})
            case Failure(kind, message):
                return b"event: error\ndata: " + orjson.dumps(_error(kind, message)) + b"\n\n"

    def _enter(self, kind: type, block: dict[str, Any]) -> bytes:
        if self._open is kind:
            return b""
        closed = self._close()
        self._open = kind
        self._index += 1
        return closed + _sse("content_block_start", {"index": self._index, "content_block": block})

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return _sse("content_block_stop", {"index": self._index})

    def _delta(self, delta: bytes) -> bytes:
        head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":' % self._index
        return head + delta + b"}\n\n"


def _messages(message: dict[str, Any], where: str) -> list[Message]:
    role, content = message.get("role"), message.get("content")
    if role == "system":
        return [{"role": "system", "content": canonical.text_of(content, where)}]
    if role not in ("user", "assistant"):
        raise BadRequest(f"{where}.role is {role!r}; known roles: user, assistant, system")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise BadRequest(f"{where}.content must be a string or a list of blocks")
    return [_assistant(content, where)] if role == "assistant" else _user(content, where)


def _assistant(content: list[dict[str, Any]], where: str) -> Message:
    texts, calls = [], []
    for block in content:
        if block.get("type") == "tool_use":
            calls.append(
                canonical.tool_call(str(block.get("id", "")), str(block.get("name", "")), block.get("input", {}))
            )
        elif block.get("type") not in ("thinking", "redacted_thinking"):
            texts.append(_text(block, where))
    return canonical.assistant("".join(texts), calls)


def _user(content: list[dict[str, Any]], where: str) -> list[Message]:
    """Tool results are turns of their own; texts between them are one."""
    messages: list[Message] = []
    texts: list[str] = []

    def flush() -> None:
        if texts:
            messages.append({"role": "user", "content": canonical.join_blocks(texts)})
            texts.clear()

    for block in content:
        if block.get("type") == "tool_result":
            flush()
            given = block.get("content")
            parts = [_plain(b, f"{where}.tool_result") for b in given] if isinstance(given, list) else given
            text = canonical.text_of(parts, f"{where}.tool_result")
            messages.append({"role": "tool", "tool_call_id": str(block.get("tool_use_id", "")), "content": text})
        else:
            texts.append(_text(block, where))
    flush()
    return messages or [{"role": "user", "content": ""}]


def _text(block: dict[str, Any], where: str) -> str:
    return canonical.block_text(_plain(block, where), where)


def _plain(block: Any, where: str) -> Any:
    """A block that wraps texts as a text block; any other as it is."""
    if not isinstance(block, dict):
        return block
    match block.get("type"):
        case "tool_reference":
            return {"type": "text", "text": str(block.get("tool_name", ""))}
        case "search_result":
            head = [str(block.get(name) or "") for name in ("title", "source")]
            return {
                "type": "text",
                "text": canonical.join_blocks([*head, canonical.text_of(block.get("content"), where)]),
            }
        case "document" if (source := block.get("source")) and isinstance(source, dict):
            head = [str(block.get(name) or "") for name in ("title", "context")]
            if source.get("type") == "text":
                return {"type": "text", "text": canonical.join_blocks([*head, str(source.get("data", ""))])}
            if source.get("type") == "content":
                return {
                    "type": "text",
                    "text": canonical.join_blocks([*head, canonical.text_of(source.get("content"), where)]),
                }
    return block


def _is_run_elsewhere(tool: Any) -> bool:
    """A tool that the provider would run by itself: nobody is here to run it, so it is not offered."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and kind.startswith(_PROVIDERS_TOOLS)


def _tool(tool: Any) -> dict[str, Any]:
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        raise BadRequest("each of tools must have a name")
    function: dict[str, Any] = {"name": tool["name"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    own = next((given for kind, given in _OWN_SCHEMAS.items() if str(tool.get("type")).startswith(kind)), {})
    properties = {name: {"type": kind} for name, kind in own.items()}
    function["parameters"] = canonical.schema(tool.get("input_schema"), tool["name"], properties)
    return {"type": "function", "function": function}


def _block(piece: Event) -> dict[str, Any]:
    match piece:
        case ReasoningPiece(text):
            return {"type": "thinking", "thinking": text, "signature": ""}
        case ToolUse():
            return {"type": "tool_use", "id": piece.id, "name": piece.name, "input": piece.arguments}
        case TextPiece(text):
            return {"type": "text", "text": text}
    raise TypeError(f"{piece!r} is no block of a message")


def _message_head(head: Head) -> dict[str, Any]:
    return {"id": head.id, "type": "message", "role": "assistant", "model": head.model}


def _usage(head: Head, finish: Finish) -> dict[str, int]:
    return {
        "input_tokens": head.input_tokens - finish.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": finish.cached_tokens,
        "output_tokens": finish.output_tokens,
    }


def _error(kind: str, message: str) -> dict[str, Any]:
    error: dict[str, Any] = {"type": _TYPES[kind], "message": message}
    if kind == "thread_not_found":
        error["details"] = {"error_code": kind}
    return {"type": "error", "error": error}


def _sse(name: str, data: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps({"type": name, **data}) + b"\n\n"
