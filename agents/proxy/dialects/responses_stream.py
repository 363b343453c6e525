"""A reply as Responses events: items open, grow and close in the order in which they are sampled."""

from __future__ import annotations

from typing import Any

import orjson

from agents.proxy.canonical import ModelRequest
from agents.proxy.dialects.base import Head, StreamEncoder
from agents.proxy.dialects.responses_tools import WireTools, call_item, wire_tool
from agents.proxy.replies import Event, Failure, Finish, ReasoningPiece, TextPiece, ToolUse

ID_PREFIX = "resp_"
#: Kind of error -> code of a failed response.
CODES = {"too_long": "context_length_exceeded", "unavailable": "server_is_overloaded"}

#: Items whose text is sent as deltas -> the events' name, and the field that grows.
_GROWING = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}


class ResponsesStream(StreamEncoder):
    """At most one item is open at a time. `output` holds the items that are closed."""

    def __init__(self, head: Head, request: ModelRequest) -> None:
        self._head = head
        self._reply = head.id.removeprefix(ID_PREFIX)
        self._settings: dict[str, Any] = request.traits["settings"]
        self._tools: WireTools = request.traits["wire_tools"]
        self._sequence = -1
        self._open: type | None = None
        self._item: dict[str, Any] = {}
        self._texts: list[str] = []
        self._delta_head = b""
        self.output: list[dict[str, Any]] = []

    def start(self) -> bytes:
        response = self._response("in_progress")
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def event(self, event: Event) -> bytes:
        match event:
            case TextPiece(text):
                opened = b"" if self._open is TextPiece else self._close() + self._open_message()
                return opened + self._delta(text)
            case ReasoningPiece(text):
                opened = b"" if self._open is ReasoningPiece else self._close() + self._open_reasoning()
                return opened + self._delta(text)
            case ToolUse():
                return self._close() + self._tool_use(event)
            case Finish():
                closed = self._close("incomplete" if event.reason == "length" else "completed")
                name = "response.incomplete" if event.reason == "length" else "response.completed"
                return closed + self._event(name, response=self.response(event))
            case Failure(kind, message):
                failed = self._response("failed") | {
                    "error": {"code": CODES.get(kind, "server_error"), "message": message}
                }
                return self._event("response.failed", response=failed)

    def response(self, finish: Finish) -> dict[str, Any]:
        """The whole response, once every piece has been taken."""
        is_cut = finish.reason == "length"
        response = self._response("incomplete" if is_cut else "completed")
        response["incomplete_details"] = {"reason": "max_output_tokens"} if is_cut else None
        response["usage"] = {
            "input_tokens": self._head.input_tokens,
            "input_tokens_details": {"cached_tokens": finish.cached_tokens},
            "output_tokens": finish.output_tokens,
            "output_tokens_details": {"reasoning_tokens": finish.reasoning_tokens},
            "total_tokens": self._head.input_tokens + finish.output_tokens,
        }
        return response

    def _response(self, status: str) -> dict[str, Any]:
        return self._settings | {
            "id": self._head.id,
            "object": "response",
            "created_at": self._head.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": self._head.model,
            "output": self.output,
            "usage": None,
        }

    def _open_message(self) -> bytes:
        message = {"type": "message", "role": "assistant"}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        extra = b'"logprobs":[],'
        return self._open_item(TextPiece, "msg_", message, {"content": []}, part, b"output_text", extra)

    def _open_reasoning(self) -> bytes:
        part = {"type": "reasoning_text", "text": ""}
        rest: dict[str, Any] = {"summary": [], "content": [], "encrypted_content": None}
        return self._open_item(ReasoningPiece, "rs_", {"type": "reasoning"}, rest, part, b"reasoning_text", b"")

    def _open_item(
        self, kind: type, prefix: str, item: dict[str, Any], empty: dict[str, Any], part: dict[str, Any], name: bytes,
        extra: bytes,
    ) -> bytes:  # fmt: skip
        index = len(self.output)
        self._open, self._texts = kind, []
        self._item = item | {"id": f"{prefix}{self._reply}_{index}", "status": "in_progress"} | empty
        self._delta_head = b'event: response.%s.delta\ndata: {"type":"response.%s.delta","item_id":"%s",' % (
            name,
            name,
            self._item["id"].encode(),
        )
        self._delta_head += b'"output_index":%d,"content_index":0,%b"delta":' % (index, extra)
        opened = self._event("response.output_item.added", output_index=index, item=self._item)
        return opened + self._part_event("response.content_part.added", part=part)

    def _delta(self, text: str) -> bytes:
        self._texts.append(text)
        self._sequence += 1
        return b'%b%b,"sequence_number":%d}\n\n' % (self._delta_head, orjson.dumps(text), self._sequence)

    def _close(self, status: str = "completed") -> bytes:
        kind, self._open = self._open, None
        if kind is None:
            return b""
        text = "".join(self._texts)
        if kind is TextPiece:
            part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            done = self._part_event("response.output_text.done", text=text, logprobs=[])
        else:
            part = {"type": "reasoning_text", "text": text}
            done = self._part_event("response.reasoning_text.done", text=text)
        done += self._part_event("response.content_part.done", part=part)
        return done + self._finish_item(self._item | {"status": status, "content": [part]})

    def _tool_use(self, use: ToolUse) -> bytes:
        index = len(self.output)
        item = call_item(use, wire_tool(use.name, self._tools), self._reply, index)
        at = {"item_id": item["id"], "output_index": index}
        kind, field = _GROWING.get(item["type"], ("", ""))
        begun = item | {"status": "in_progress"} | ({field: ""} if field else {})
        out = self._event("response.output_item.added", output_index=index, item=begun)
        if kind:
            named = {"name": item["name"]} if field == "arguments" else {}
            out += self._event(f"{kind}.delta", **at, delta=item[field])
            out += self._event(f"{kind}.done", **at, **named, **{field: item[field]})
        return out + self._finish_item(item)

    def _finish_item(self, item: dict[str, Any]) -> bytes:
        done = self._event("response.output_item.done", output_index=len(self.output), item=item)
        self.output.append(item)
        return done

    def _part_event(self, name: str, **data: Any) -> bytes:
        return self._event(name, item_id=self._item["id"], output_index=len(self.output), content_index=0, **data)

    def _event(self, kind: str, /, **data: Any) -> bytes:
        self._sequence += 1
        body = orjson.dumps({"type": kind, "sequence_number": self._sequence, **data})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)
