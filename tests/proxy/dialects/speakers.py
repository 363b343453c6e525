"""One way to speak to the proxy through each official client, synchronous and asynchronous, as its users do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai

SYSTEM = "You are an agent. Do the task with tools."
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


@dataclass
class Said:
    """A reply as a client reads it. `echo` is what it adds to its history."""

    text: str
    stop: str | None
    input_tokens: int
    output_tokens: int
    echo: list[Any]
    #: (id, name, arguments) of each tool call.
    uses: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    reasoning: str = ""
    #: Texts in the order in which they came.
    pieces: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Refused:
    """What a client makes of an error."""

    exception: str
    status: int
    kind: str | None
    message: str
    is_final: bool


class Speaker(ABC):
    """`is_async` runs the asynchronous client, in an event loop of its own."""

    name: str
    ends = {"stop": "stop", "tools": "tools", "length": "length"}

    def __init__(self, is_async: bool) -> None:
        self.is_async = is_async

    def __repr__(self) -> str:
        return f"{self.name}{'-async' if self.is_async else ''}"

    def ask(self, base: str, history: list[Any], **options: Any) -> Said:
        """A whole reply. `options`: max_tokens, tools (False for none)."""
        return self._run(self._ask(base, history, options))

    def stream(self, base: str, history: list[Any], **options: Any) -> Said:
        """The same through the client's streaming helper."""
        return self._run(self._stream(base, history, options))

    def leave(self, base: str, history: list[Any], num_events: int, **options: Any) -> None:
        """Close a stream after a few of its events; an asynchronous client is cancelled where it stands."""
        with contextlib.suppress(asyncio.CancelledError):
            self._run(self._leave(base, history, num_events, options))

    def refusal(self, base: str, history: list[Any], **options: Any) -> Refused:
        """The error that a request raises."""
        try:
            said = self.ask(base, history, **options)
        except (anthropic.APIStatusError, openai.APIStatusError) as error:
            body: Any = error.body
            inner = body.get("error", body) if isinstance(body, dict) else {}
            kind = inner.get("code") or inner.get("type")
            final = error.response.headers.get("x-should-retry") == "false"
            return Refused(type(error).__name__, error.status_code, kind, inner.get("message", ""), final)
        raise AssertionError(f"{said} instead of an error")

    @abstractmethod
    def user(self, text: str) -> Any: ...

    @abstractmethod
    def image(self) -> Any:
        """A user's message with an image."""

    @abstractmethod
    def results(self, said: Said, texts: Sequence[str]) -> list[Any]:
        """What its tools gave back."""

    @abstractmethod
    def use(self, said: Said) -> list[Any]:
        """An assistant turn with its tool calls, as a client writes one by itself."""

    @abstractmethod
    async def _ask(self, base: str, history: list[Any], options: dict[str, Any]) -> Said: ...

    @abstractmethod
    async def _stream(self, base: str, history: list[Any], options: dict[str, Any]) -> Said: ...

    @abstractmethod
    async def _leave(self, base: str, history: list[Any], num_events: int, options: dict[str, Any]) -> None: ...

    @staticmethod
    def _run(work: Any) -> Any:
        return asyncio.run(work)


async def _wait(value: Any) -> Any:
    """The result of a call, whichever kind of client made it."""
    return await value if hasattr(value, "__await__") else value


async def _each(stream: Any) -> Any:
    if hasattr(stream, "__aiter__"):
        async for event in stream:
            yield event
    else:
        for event in stream:
            yield event


class _Within:
    """`async with` for both kinds of context managers."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager

    async def __aenter__(self) -> Any:
        if hasattr(self.manager, "__aenter__"):
            return await self.manager.__aenter__()
        return self.manager.__enter__()

    async def __aexit__(self, *error: Any) -> Any:
        if hasattr(self.manager, "__aexit__"):
            return await self.manager.__aexit__(*error)
        return self.manager.__exit__(*error)


class Messages(Speaker):
    name = "anthropic"

    def _client(self, base: str) -> Any:
        kind = anthropic.AsyncAnthropic if self.is_async else anthropic.Anthropic
        return kind(base_url=base, api_key="none", max_retries=0)

    def _request(self, history: list[Any], options: dict[str, Any]) -> dict[str, Any]:
        tool = {"name": "bash", "description": "Run a command.", "input_schema": PARAMETERS}
        request = {"model": "m", "max_tokens": options.get("max_tokens", 100), "system": SYSTEM, "messages": history}
        return request | ({"tools": [tool]} if options.get("tools", True) else {})

    def user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def image(self) -> Any:
        source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
        return {"role": "user", "content": [{"type": "image", "source": source}]}

    def results(self, said: Said, texts: Sequence[str]) -> list[Any]:
        pairs = zip(said.uses, texts, strict=True)
        blocks = [{"type": "tool_result", "tool_use_id": use[0], "content": text} for use, text in pairs]
        return [{"role": "user", "content": blocks}]

    def use(self, said: Said) -> list[Any]:
        blocks = [{"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in said.uses]
        return [{"role": "assistant", "content": blocks}]

    async def _ask(self, base: str, history: list[Any], options: dict[str, Any]) -> Said:
        async with _Within(self._client(base)) as client:
            return self._said(await _wait(client.messages.create(**self._request(history, options))))

    async def _stream(self, base: str, history: list[Any], options: dict[str, Any]) -> Said:
        pieces: list[str] = []
        async with (
            _Within(self._client(base)) as client,
            _Within(client.messages.stream(**self._request(history, options))) as stream,
        ):
            async for event in _each(stream):
                if event.type == "text":
                    pieces.append(event.text)
            said = self._said(await _wait(stream.get_final_message()))
        said.pieces = pieces
        return said

    async def _leave(self, base: str, history: list[Any], num_events: int, options: dict[str, Any]) -> None:
        request = self._request(history, options)
        async with _Within(self._client(base)) as client:
            stream = await _wait(client.messages.create(**request, stream=True))
            await _leave_after(stream, num_events)

    def _said(self, message: Any) -> Said:
        uses = [(b.id, b.name, b.input) for b in message.content if b.type == "tool_use"]
        usage = message.usage
        return Said(
            text="".join(b.text for b in message.content if b.type == "text"),
            reasoning="".join(b.thinking for b in message.content if b.type == "thinking"),
            stop={"end_turn": "stop", "tool_use": "tools", "max_tokens": "length"}.get(message.stop_reason),
            input_tokens=usage.input_tokens + (usage.cache_read_input_tokens or 0),
            output_tokens=usage.output_tokens,
            echo=[{"role": "assistant", "content": [b.to_dict() for b in message.content]}],
            uses=uses,
        )


class Chat(Speaker):
    name = "chat"

    def _client(self, base: str) -> Any:
        kind = openai.AsyncOpenAI if self.is_async else openai.OpenAI
        return kind(base_url=f"{base}/v1", api_key="none", max_retries=0)

    def _request(self, history: list[Any], options: dict[str, Any]) -> dict[str, Any]:
        function = {"name": "bash", "description": "Run a command.", "parameters": PARAMETERS, "strict": True}
        messages = [{"role": "developer", "content": SYSTEM}, *history]
        request = {"model": "m", "max_completion_tokens": options.get("max_tokens", 100), "messages": messages}
        return request | ({"tools": [{"type": "function", "function": function}]} if options.get("tools", True) else {})

    def user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def image(self) -> Any:
        return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}

    def results(self, said: Said, texts: Sequence[str]) -> list[Any]:
        pairs = zip(said.uses, texts, strict=True)
        return [{"role": "tool", "tool_call_id": use[0], "content": text} for use, text in pairs]

    def use(self, said: Said) -> list[Any]:
        return [{"role": "assistant", "content": None, "tool_calls": [_chat_call(*use) for use in said.uses]}]

    async def _ask(self, base: str, history: list[Any], options: dict[str, Any]) -> Said:
        async with _Within(self._client(base)) as client:
            return self._said(await _wait(client.chat.completions.create(**self._request(history, options))))

    async def _stream(self, base: str, history: list[Any], options: dict[str, Any]) -> Said:
        pieces: list[str] = []
        request = self._request(history, options) | {"stream_options": {"include_usage": True}}
        async with (
            _Within(self._client(base)) as client,
            _Within(client.chat.completions.stream(**request)) as stream,
        ):
            async for event in _each(stream):
                if event.type == "content.delta":
                    pieces.append(event.delta)
            try:
                said = self._said(await _wait(stream.get_final_completion()))
            except openai.LengthFinishReasonError as error:  # its way to say that the limit was reached
                said = self._said(error.completion)
        said.pieces = pieces
        return said

    async def _leave(self, base: str, history: list[Any], num_events: int, options: dict[str, Any]) -> None:
        async with _Within(self._client(base)) as client:
            request = self._request(history, options)
            await _leave_after(await _wait(client.chat.completions.create(**request, stream=True)), num_events)

    def _said(self, completion: Any) -> Said:
        [choice] = completion.choices
        message = choice.message
        calls = message.tool_calls or []
        echo = {"role": "assistant", "content": message.content}
        if calls:
            echo["tool_calls"] = [_chat_call(c.id, c.function.name, json.loads(c.function.arguments)) for c in calls]
        return Said(
            text=message.content or "",
            reasoning=getattr(message, "reasoning_content", None) or "",
            stop={"tool_calls": "tools"}.get(choice.finish_reason, choice.finish_reason),
            input_tokens=completion.usage.prompt_tokens,
            output_tokens=completion.usage.completion_tokens,
            echo=[echo],
            uses=[(c.id, c.function.name, json.loads(c.function.arguments)) for c in calls],
        )


class Responses(Speaker):
    name = "responses"

    _client = Chat._client

    def _request(self, history: list[Any], options: dict[str, Any]) -> dict[str, Any]:
        tool = {"type": "function", "name": "bash", "description": "Run a command.", "parameters": PARAMETERS}
        request = {"model": "m", "max_output_tokens": options.get("max_tokens", 100), "input": history}
        request |= {"instructions": SYSTEM}
        return request | ({"tools": [tool]} if options.get("tools", True) else {})

    def user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def image(self) -> Any:
        return {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}

    def results(self, said: Said, texts: Sequence[str]) -> list[Any]:
        pairs = zip(said.uses, texts, strict=True)
        return [{"type": "function_call_output", "call_id": use[0], "output": text} for use, text in pairs]

    def use(self, said: Said) -> list[Any]:
        return [
            {"type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(given)}
            for id, name, given in said.uses
        ]

    async def _ask(self, base: str, history: list[Any], options: dict[str, Any]) -> Said:
        async with _Within(self._client(base)) as client:
            return self._said(await _wait(client.responses.create(**self._request(history, options))))

    async def _stream(self, base: str, history: list[Any], options: dict[str, Any]) -> Said:
        pieces: list[str] = []
        final: Any = None
        request = self._request(history, options)
        async with (
            _Within(self._client(base)) as client,
            _Within(client.responses.stream(**request)) as stream,
        ):
            async for event in _each(stream):
                if event.type == "response.output_text.delta":
                    pieces.append(event.delta)
                if event.type in ("response.completed", "response.incomplete"):
                    final = event.response
        said = self._said(final)
        said.pieces = pieces
        return said

    async def _leave(self, base: str, history: list[Any], num_events: int, options: dict[str, Any]) -> None:
        async with _Within(self._client(base)) as client:
            request = self._request(history, options)
            await _leave_after(await _wait(client.responses.create(**request, stream=True)), num_events)

    def _said(self, response: Any) -> Said:
        calls = [item for item in response.output if item.type == "function_call"]
        thoughts = [part.text for item in response.output if item.type == "reasoning" for part in item.content or []]
        stop = "length" if response.status == "incomplete" else "tools" if calls else "stop"
        return Said(
            text=response.output_text,
            reasoning="".join(thoughts),
            stop=stop,
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            echo=[item.to_dict() for item in response.output],
            uses=[(c.call_id, c.name, json.loads(c.arguments)) for c in calls],
        )


def _chat_call(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


async def _leave_after(stream: Any, num_events: int) -> None:
    async for _ in _each(stream):
        num_events -= 1
        if num_events == 0:
            break
    if hasattr(stream, "__aiter__"):
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
    stream.close()


SPEAKERS = [kind(is_async) for kind in (Messages, Chat, Responses) for is_async in (False, True)]
