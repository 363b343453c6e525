"""OpenAI Responses. Nothing is kept for it but the record, from which a request may go on."""

from __future__ import annotations

from typing import Any

import orjson

from agents.proxy import canonical
from agents.proxy.canonical import BadRequest, ModelRequest, Sampling
from agents.proxy.dialects.base import FIELDS, Dialect, Head, StreamEncoder, asked, expect, expect_max_tokens
from agents.proxy.dialects.openai_chat import error_body, too_long_text
from agents.proxy.dialects.responses_items import read_input
from agents.proxy.dialects.responses_stream import ID_PREFIX, ResponsesStream
from agents.proxy.dialects.responses_tools import read_tools
from agents.proxy.replies import Failure, Finish, Reply

#: What would need a reply that is kept by the server.
_STATEFUL = {
    "conversation": "send the whole input instead",
    "background": "wait for the reply, or stream it",
    "prompt": "send the prompt's text in instructions or input",
}
#: Settings of a request that its response repeats, with what stands there when it has none.
_REPEATED: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}


class OpenAIResponses(Dialect):
    name = "openai-responses"
    reply_id_prefix = ID_PREFIX
    tool_id_prefix = "call_"
    fields = FIELDS | {*_STATEFUL, *_REPEATED, "input"}
    #: An event of its own: clients that measure the time between events do not see comments.
    keep_alive = b'event: keepalive\ndata: {"type":"keepalive"}\n\n'

    def parse(self, body: dict[str, Any]) -> ModelRequest:
        for name, instead in _STATEFUL.items():
            if body.get(name):
                raise BadRequest(f"{name} is not supported, nothing is stored here: {instead}")
        messages = read_input(body.get("input"))
        if body.get("instructions"):
            text = canonical.text_of(body["instructions"], "instructions")
            messages.insert(0, {"role": "system", "content": text})
        follows = str(body.get("previous_response_id") or "").removeprefix(ID_PREFIX)
        if messages[0]["role"] == "assistant" and not follows:
            raise BadRequest("input: the first item cannot be the assistant's")
        tools, wire_tools = read_tools(expect(body, "tools", list, []))
        text_format = expect(expect(body, "text", dict, {}), "format", dict, {})
        return ModelRequest(
            dialect=self.name,
            messages=messages,
            tools=tools,
            sampling=Sampling(
                expect_max_tokens(body, "max_output_tokens"),
                (),
                asked(body, "temperature", "top_p", "reasoning", "text", "parallel_tool_calls", "tool_choice"),
            ),
            stream=bool(expect(body, "stream", bool, False)),
            model=str(body.get("model") or ""),
            traits={
                "tool_choice": body.get("tool_choice") not in (None, "auto"),
                "output_format": text_format.get("type") not in (None, "text"),
                "wire_tools": wire_tools,
                "has_instructions": bool(body.get("instructions")),
                "settings": {
                    name: default if body.get(name) is None else body[name] for name, default in _REPEATED.items()
                },
            },
            follows=follows,
        )

    def stream(self, head: Head, request: ModelRequest) -> StreamEncoder:
        return ResponsesStream(head, request)

    def whole(self, head: Head, request: ModelRequest, reply: Reply, finish: Finish) -> bytes:
        encoder = ResponsesStream(head, request)
        for piece in reply.pieces():
            encoder.event(piece)
        encoder.event(finish)
        return orjson.dumps(encoder.response(finish))

    def error(self, kind: str, message: str) -> bytes:
        return error_body(kind, message)

    def too_long(self, input_tokens: int, limit: int) -> str:
        return too_long_text(input_tokens, limit)

    def counted(self, input_tokens: int) -> bytes:
        return orjson.dumps({"object": "response.input_tokens", "input_tokens": input_tokens})

    def too_long_stream(self, head: Head, request: ModelRequest, message: str) -> bytes:
        """A stream that fails: clients of streams look for the code there, not in an error reply."""
        encoder = ResponsesStream(head, request)
        return encoder.start() + encoder.event(Failure("too_long", message))
