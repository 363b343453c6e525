"""The one inner form of a request, whatever its dialect, and its hashes.

See docs/algorithms.md §2.2; docs/matching-and-roles.md "Canonical form".

Messages have the OpenAI shape with text contents, which is what is rendered and recorded. Tool results stand in the
order of the calls that they answer, in whatever order they came. For matching, volatile parts do not count: tool-call
ids, key order and spacing of tool arguments, the order of tools, reasoning, white space around an assistant's text,
newlines at the end of a user's, and whether an absent text is `null` or `""`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from agents.proxy import bodies

Message = dict[str, Any]
Tool = dict[str, Any]

#: Dialects in which a last assistant message is the beginning of the reply.
PREFILLING = frozenset({"anthropic-messages"})

_WRITERS_DEPTH = 254

#: A line that names the build and a nonce of the conversation; it stands first in a system block.
_BILLING = re.compile(r"^x-anthropic-billing-header:[^\n]*\n*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sampling:
    """What the harness may decide. `asked` keeps what it wanted besides; it is recorded and not obeyed."""

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    asked: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A model call in canonical form. `traits` are the dialect's own marks that profiles may look at."""

    dialect: str
    messages: list[Message]
    tools: list[Tool]
    sampling: Sampling
    stream: bool
    model: str = ""
    include_usage: bool = True
    #: The last assistant message is the beginning of the reply (Anthropic prefill).
    continues_last: bool = False
    traits: Mapping[str, Any] = field(default_factory=dict)
    #: Id of the call whose reply `messages` follow, when they are only what came after it (agents.proxy.threads).
    follows: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", in_call_order(without_empty_retries(self.messages)))


class BadRequest(ValueError):
    """A request that cannot be served as it stands; the text tells its sender why."""


def text_of(content: Any, where: str = "content") -> str:
    """The text of a string or a list of text blocks. Raises BadRequest for anything that is not text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return _BILLING.sub("", content)
    if not isinstance(content, list):
        raise BadRequest(f"{where} is neither a string nor a list of blocks")
    return join_blocks([_BILLING.sub("", block_text(block, where)) for block in content])


def block_text(block: Any, where: str = "content") -> str:
    if isinstance(block, str):
        return block
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in ("text", "input_text", "output_text", "refusal"):
        text = block.get("text", block.get("refusal"))
        if isinstance(text, str):
            return text
    if kind in ("image", "image_url", "input_image", "document", "file", "input_audio", "video_url"):
        raise BadRequest(f"{where} holds a block of type {kind}; this model takes text only")
    raise BadRequest(f"{where} holds a block of type {kind!r} that is not understood")


def join_blocks(texts: list[str]) -> str:
    """Blocks of one turn as one text: each on lines of its own."""
    joined = ""
    for text in texts:
        if joined and text and not joined.endswith("\n"):
            joined += "\n"
        joined += text
    return joined


def without_empty_retries(messages: list[Message]) -> list[Message]:
    """The same messages without empty assistant turns right before another one.

    That is what harnesses keep of a reply that never reached them, before the reply that their retry got.
    """
    return [
        message
        for message, after in zip(messages, [*messages[1:], None], strict=False)
        if not (after is not None and after["role"] == "assistant" and _is_empty(message))
    ]


def _is_empty(message: Message) -> bool:
    said = message.get("tool_calls") or message.get("reasoning_content") or (message["content"] or "").strip()
    return message["role"] == "assistant" and not said


def in_call_order(messages: list[Message]) -> list[Message]:
    """The same messages, each run of tool results in the order of the calls that it answers (others after them)."""
    places: dict[str, int] = {}
    ordered: list[Message] = []
    run: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            run.append(message)
            continue
        ordered += _sorted(run, places)
        run = []
        if message["role"] == "assistant":
            places = {id: i for i, id in enumerate(tool_call_ids(message))}
        ordered.append(message)
    return ordered + _sorted(run, places)


def _sorted(run: list[Message], places: dict[str, int]) -> list[Message]:
    return sorted(run, key=lambda m: places.get(m.get("tool_call_id", ""), len(places))) if len(run) > 1 else run


def assistant(content: str, tool_calls: list[dict[str, Any]] | None = None) -> Message:
    message: Message = {"role": "assistant", "content": content}
    if tool_calls:
        message["tool_calls"] = tool_calls
    return message


def schema(given: Any, tool: str, properties: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, that of `properties` where none is given. Raises BadRequest.

    Lists stand for empty objects where harnesses write them so: languages without objects of their own do.
    """
    if not given:
        return {"type": "object", "properties": dict(properties or {})}
    if not isinstance(given, dict):
        raise BadRequest(f"the schema of tool {tool[:80]!r} must be an object, not {type(given).__name__}")
    return {name: _subschema(name, value) for name, value in given.items()}


def _subschema(name: str, value: Any) -> Any:
    if value == [] and name in ("properties", "patternProperties", "$defs", "definitions"):
        return {}
    if isinstance(value, dict):
        return {inner: _subschema(inner, item) for inner, item in value.items()}
    return [_subschema("", item) for item in value] if isinstance(value, list) else value


def tool_call(id: str, name: str, arguments: Any) -> dict[str, Any]:
    """Arguments as an object where they are one, else as the text that they are."""
    if isinstance(arguments, str):
        arguments = _opened(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _opened(text: str) -> Any:
    """What a text says in JSON; the text itself where it says nothing, or nothing that can be written again."""
    try:
        value = bodies.loads(text)
    except (orjson.JSONDecodeError, bodies.TooDeep):
        return text
    return text if unwritable(value) else value


def unwritable(value: Any) -> str:
    """Why a value cannot be written as JSON and read again as the same, wherever it stands; "" when it can."""
    if is_too_deep(value):
        return f"it is nested more than {bodies.MAX_DEPTH} levels deep"
    try:
        orjson.dumps(value)
        json.dumps(value, allow_nan=False)  # orjson writes null for NaN
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def is_too_deep(value: Any) -> bool:
    """Whether it may fail to be written once it stands inside a message, a row or a reply."""
    for _ in range(_WRITERS_DEPTH - bodies.MAX_DEPTH):
        value = [value]
    try:
        orjson.dumps(value)
    except TypeError as error:
        return "recursion limit" in str(error).lower()  # orjson tells its errors apart by their words alone
    return False


def tool_call_ids(message: Message) -> tuple[str, ...]:
    return tuple(call["id"] for call in message.get("tool_calls", ()))


def marks(body: Mapping[str, Any]) -> dict[str, str]:
    """What a harness says of itself beside the conversation, as flat facts: `client_metadata.thread_id` and the like.

    Texts that hold a JSON object are opened too. `billing` is the line that stands before a system prompt.
    """
    found: dict[str, str] = {}
    for name in ("metadata", "client_metadata"):
        flatten(name, body.get(name), found)
    system = body.get("system")
    heads = [system] if isinstance(system, str) else system if isinstance(system, list) else []
    for head in heads[:1]:
        text = head.get("text") if isinstance(head, dict) else head
        if isinstance(text, str) and (billing := _BILLING.match(text)):
            found["billing"] = billing[0].strip()
    return found


def forces_tool(body: Mapping[str, Any]) -> bool:
    """Whether the reply must use a tool."""
    choice = body.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, Mapping) else choice
    return kind not in (None, "auto", "none")


def flatten(name: str, value: Any, into: dict[str, str], depth: int = 4) -> None:
    """Add the leaves of a nested value, each under its path; objects that are written as text are opened."""
    if isinstance(value, str) and value.startswith("{") and depth:
        value = _opened(value)
    if isinstance(value, Mapping) and depth:
        for key, inner in value.items():
            flatten(f"{name}.{key}", inner, into, depth - 1)
    elif isinstance(value, str | int | float | bool):
        into[name] = str(value)


def context_key(tools: list[Tool]) -> bytes:
    """Where every hash chain of a request starts: the tools offered, in whatever order."""
    return hashlib.blake2b(b"\0".join(sorted(map(_dump, tools))), digest_size=16).digest()


def message_key(message: Message) -> bytes:
    """Hash of what counts in one message."""
    role, content = message["role"], message["content"]
    if role == "assistant":
        calls = [[c["function"]["name"], c["function"]["arguments"]] for c in message.get("tool_calls", ())]
        counted: Any = [role, content.strip(), calls]
    else:
        counted = [role, content.rstrip("\n")]
    return hashlib.blake2b(_dump(counted), digest_size=16).digest()


def extend_key(key: bytes, message: bytes) -> bytes:
    """The next link of a chain."""
    return hashlib.blake2b(key + message, digest_size=16).digest()


def opening_key(messages: list[Message], tools: list[Tool]) -> bytes:
    """Hash of the tools and the system prompt that a conversation starts from."""
    system = messages[:1] if messages and messages[0]["role"] == "system" else []
    return extend_key(context_key(tools), message_key(system[0]) if system else b"")


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
