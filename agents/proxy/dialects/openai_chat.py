"""OpenAI Chat Completions."""

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

_ROLES = {"system": "system", "developer": "system", "user": "user", "tool": "tool"}
#: Wishes that are recorded; the run's settings decide.
_ASKED = (
    "temperature",
    "top_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
    "parallel_tool_calls",
    "reasoning_effort",
    "response_format",
    "tool_choice",
)
_FINISH = {"stop": "stop", "stop_sequence": "stop", "length": "length", "tool_calls": "tool_calls"}
_CODES = {
    "bad_request": ("invalid_request_error", None),
    "too_long": ("invalid_request_error", "context_length_exceeded"),
    "not_found": ("invalid_request_error", "not_found"),
    "thread_not_found": ("invalid_request_error", "previous_response_not_found"),
    "late": ("invalid_request_error", "request_timeout"),
    "dead_key": ("invalid_request_error", "execution_ended"),
    "too_large": ("invalid_request_error", "request_too_large"),
    "headers_too_large": ("invalid_request_error", "headers_too_large"),
    "engine": ("server_error", None),
    "broken": ("server_error", None),
    "unavailable": ("server_error", "overloaded"),
}


class OpenAIChat(Dialect):
    name = "openai-chat"
    reply_id_prefix = "chatcmpl-"
    tool_id_prefix = "call_"
    fields = FIELDS | {
        *_ASKED,
        *(
            "functions",
            "logit_bias",
            "max_completion_tokens",
            "max_tokens",
            "modalities",
            "n",
            "stop",
            "stream_options",
        ),
    }
    keep_alive = b": keep-alive\n\n"

    def parse(self, body: dict[str, Any]) -> ModelRequest:
        if expect(body, "n", int, 1) != 1:
            raise BadRequest("n must be 1: each call samples one reply")
        if body.get("logit_bias"):
            raise BadRequest("logit_bias is not supported: the run's settings own the sampling distribution")
        if body.get("functions"):
            raise BadRequest("functions is not supported: offer tools instead")
        if "audio" in expect(body, "modalities", list, []):
            raise BadRequest("modalities: this model speaks text only")
        options = expect(body, "stream_options", dict, {})
        choice = body.get("tool_choice")
        return ModelRequest(
            dialect=self.name,
            messages=[_message(m, f"messages[{i}]") for i, m in enumerate(expect_messages(body))],
            tools=[_tool(t) for t in expect(body, "tools", list, [])],
            sampling=Sampling(
                expect_max_tokens(body, "max_completion_tokens", "max_tokens"),
                expect_stop(body.get("stop"), "stop"),
                asked(body, *_ASKED),
            ),
            stream=bool(expect(body, "stream", bool, False)),
            model=str(body.get("model") or ""),
            include_usage=bool(options.get("include_usage")),
            traits={
                "tool_choice": choice not in (None, "auto"),
                "output_format": bool(body.get("response_format")),
            },
        )

    def stream(self, head: Head, request: ModelRequest) -> StreamEncoder:
        return _Stream(head, request.include_usage)

    def whole(self, head: Head, request: ModelRequest, reply: Reply, finish: Finish) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": reply.content or None, "refusal": None}
        if not reply.tool_calls and not reply.content:
            message["content"] = ""
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.tool_calls:
            message["tool_calls"] = [_tool_use(call) for call in reply.tool_calls]
        return orjson.dumps(
            {
                "id": head.id,
                "object": "chat.completion",
                "created": head.created,
                "model": head.model,
                "choices": [
                    {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[finish.reason]}
                ],
                "usage": _usage(head, finish),
            }
        )

    def error(self, kind: str, message: str) -> bytes:
        return error_body(kind, message)

    def too_long(self, input_tokens: int, limit: int) -> str:
        return too_long_text(input_tokens, limit)


class _Stream(StreamEncoder):
    def __init__(self, head: Head, include_usage: bool) -> None:
        self._head = head
        self._include_usage = include_usage
        self._num_tools = 0
        common = {"id": head.id, "object": "chat.completion.chunk", "created": head.created, "model": head.model}
        self._open = b"data: " + orjson.dumps(common)[:-1] + b',"choices":['

    def start(self) -> bytes:
        return self._choice({"role": "assistant", "content": ""})

    def event(self, event: Event) -> bytes:
        match event:
            case TextPiece(text):
                start = b'{"index":0,"delta":{"content":'
                return b"".join((self._open, start, orjson.dumps(text), b'},"finish_reason":null}]}\n\n'))
            case ReasoningPiece(text):
                return self._choice({"reasoning_content": text})
            case ToolUse():
                self._num_tools += 1
                return self._choice({"tool_calls": [{"index": self._num_tools - 1, **_tool_use(event)}]})
            case Finish():
                end = self._choice({}, _FINISH[event.reason])
                if self._include_usage:
                    end += self._open + b'],"usage":' + orjson.dumps(_usage(self._head, event)) + b"}\n\n"
                return end + b"data: [DONE]\n\n"
            case Failure(kind, message):
                return b"data: " + error_body(kind, message) + b"\n\n"

    def _choice(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"".join((self._open, orjson.dumps(choice), b"]}\n\n"))


def _message(message: dict[str, Any], where: str) -> Message:
    role = expect(message, "role", str, "")
    if role == "assistant":
        for name in ("function_call", "audio"):
            if message.get(name):
                raise BadRequest(f"{where}.{name} is not supported: send texts and tool_calls")
        calls = expect(message, "tool_calls", list, [])
        said = canonical.text_of(message.get("content"), f"{where}.content") or expect(message, "refusal", str, "")
        return canonical.assistant(said, [_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(calls)])
    if role not in _ROLES:
        raise BadRequest(f"{where}.role is {role!r}; known roles: system, developer, user, assistant, tool")
    known: Message = {"role": _ROLES[role], "content": canonical.text_of(message.get("content"), f"{where}.content")}
    if role == "tool":
        known["tool_call_id"] = str(message.get("tool_call_id", ""))
    return known


def _call(call: Any, where: str) -> dict[str, Any]:
    """A tool call of the history. A custom one is a function of one string, as it is to the policy."""
    for kind in ("function", "custom"):
        known = call.get(kind) if isinstance(call, dict) else None
        if isinstance(known, dict):
            given = known.get("arguments", "") if kind == "function" else {"input": known.get("input", "")}
            return canonical.tool_call(str(call.get("id", "")), str(known.get("name", "")), given)
    raise BadRequest(f"{where} must be {{'type': 'function', 'function': {{'name': …}}}}, or the same of a custom tool")


def _tool(tool: Any) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise BadRequest("each of tools must be {'type': 'function', 'function': {'name': …}}")
    known: dict[str, Any] = {"name": function["name"]}
    if function.get("description"):
        known["description"] = function["description"]
    known["parameters"] = canonical.schema(function.get("parameters"), function["name"])
    return {"type": "function", "function": known}


def _tool_use(call: ToolUse) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}


def _usage(head: Head, finish: Finish) -> dict[str, Any]:
    return {
        "prompt_tokens": head.input_tokens,
        "completion_tokens": finish.output_tokens,
        "total_tokens": head.input_tokens + finish.output_tokens,
        "prompt_tokens_details": {"cached_tokens": finish.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": finish.reasoning_tokens},
    }


def error_body(kind: str, message: str) -> bytes:
    """An error in OpenAI's shape."""
    type_, code = _CODES[kind]
    return orjson.dumps({"error": {"message": message, "type": type_, "param": None, "code": code}})


def too_long_text(input_tokens: int, limit: int) -> str:
    """OpenAI's words for a prompt over the context."""
    return (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in "
        f"{input_tokens} tokens. Please reduce the length of the messages."
    )
