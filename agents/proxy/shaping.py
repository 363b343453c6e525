"""Rewrites messages and tools that a family's chat template cannot express. Pure.

A `Shape` says what a template can express; `agents.proxy.families` has the table of them. Everything else in a request
is expressed in another way: nothing is dropped, and nothing moves in front of an earlier message. How a message is
rewritten depends on the messages before it and never on later ones, so a request that continues a history begins with
the same tokens. Therefore only the system messages at the beginning are joined; later ones become marked messages of
the user.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Message = dict[str, Any]
Tool = dict[str, Any]

#: Text of the user's message that is put in where a template requires one and there is none.
NO_MESSAGE = "(no message)"
#: Name of a tool call's argument if the arguments are no object.
INPUT = "input"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a chat template can express. The first choice of each field is the usual one, later ones express less."""

    #: System messages. joined: those at the beginning are one. first: the same, and none later. nowhere: none at all.
    systems: Literal["anywhere", "joined", "first", "nowhere"] = "anywhere"
    #: Who speaks first after the system messages.
    opening: Literal["anyone", "user"] = "anyone"
    #: alternate: never two messages of the user or of the assistant in a row.
    turns: Literal["free", "alternate"] = "free"
    #: Tool calls of one assistant turn. one: a turn is one call or a text. text: calls are written in the text.
    calls: Literal["many", "one", "text"] = "many"
    #: Tool results. called: only after a turn that called a tool. text: they are written in messages of the user.
    results: Literal["anywhere", "called", "text"] = "anywhere"
    #: Arguments of a tool call. object: they must have names.
    arguments: Literal["anything", "object"] = "anything"
    #: Who lists the tools. text: not the template, so a system message in front of all others does.
    offers: Literal["template", "text"] = "template"
    #: Schemas of tools. plain: the template walks through them, so every part must have the type that JSON Schema
    #: prescribes. typed: besides, each schema must have a type, or one of the few keywords that the template knows.
    schemas: Literal["anything", "plain", "typed"] = "anything"


def conversation(messages: list[Message], shape: Shape, offered: list[Tool] | None = None) -> list[Message]:
    """A whole conversation, or the beginning of one, as a template of this shape can express it."""
    if offered and shape.offers == "text":
        messages = [_offer(offered), *messages]
    leading = next((i for i, m in enumerate(messages) if m["role"] != "system"), len(messages))
    said = [*_leading(messages[:leading], shape), *later(messages[leading:], shape)]
    first = next((i for i, m in enumerate(said) if m["role"] != "system"), len(said))
    needs_user = not said or shape.opening == "user"
    if needs_user and (first == len(said) or said[first]["role"] != "user"):
        said.insert(first, _user(NO_MESSAGE))
    return _alternating(said) if shape.turns == "alternate" else said


def later(messages: list[Message], shape: Shape, is_called: bool = False) -> list[Message]:
    """The same for messages that follow others. `is_called`: the turn before them may have called tools."""
    said: list[Message] = []
    for message in messages:
        role = message["role"]
        if role == "assistant":
            is_called = bool(message.get("tool_calls"))
            said += turn(message, shape)
        elif role == "system" and shape.systems in ("first", "nowhere"):
            said.append(_marked("system-message", message["content"]))
        elif role == "tool" and (shape.results == "text" or (shape.results == "called" and not is_called)):
            said.append(_marked("tool-result", message["content"]))
        else:
            is_called = is_called and role == "tool"
            said.append(message)
    return said


def turn(message: Message, shape: Shape) -> list[Message]:
    """One turn of the assistant, as one message or several."""
    calls = message.get("tool_calls")
    if not calls:
        return [message]
    if shape.arguments == "object":
        calls = [_with_object(call) for call in calls]
    if shape.calls == "many":
        return [message | {"tool_calls": calls}]
    plain = {name: value for name, value in message.items() if name != "tool_calls"}
    if shape.calls == "text":
        return [plain | {"content": "\n".join(filter(None, [message["content"], *map(_call_as_text, calls)]))}]
    text = [plain] if message["content"] or message.get("reasoning_content") else []
    return [*text, *({"role": "assistant", "content": "", "tool_calls": [call]} for call in calls)]


def as_sampled(echo: Message, reply: Message) -> Message:
    """A recognised turn with its tool calls as they were sampled, but with the ids that the harness gave them."""
    said = echo | {"content": echo["content"] or reply["content"]}
    if calls := echo.get("tool_calls"):
        sampled = zip(calls, reply.get("tool_calls", ()), strict=True)
        said["tool_calls"] = [call | {"function": use["function"]} for call, use in sampled]
    return said


def tools(offered: list[Tool], shape: Shape) -> list[Tool]:
    """The tools as a template of this shape can express them."""
    if shape.offers == "text":
        return []
    return offered if shape.schemas == "anything" else [_plain_tool(tool, shape.schemas == "typed") for tool in offered]


def _leading(systems: list[Message], shape: Shape) -> list[Message]:
    if shape.systems == "anywhere" or not systems:
        return systems
    joined = "\n\n".join(filter(None, (m["content"] for m in systems)))
    if shape.systems == "nowhere":
        return [_marked("system-message", joined) if joined else _user(NO_MESSAGE)]
    return [systems[0] | {"content": joined}]


def _alternating(messages: list[Message]) -> list[Message]:
    said: list[Message] = []
    for message in messages:
        role = message["role"]
        is_second = bool(said) and said[-1]["role"] == role
        if is_second and role == "user":
            said[-1] = said[-1] | {"content": f"{said[-1]['content']}\n\n{message['content']}"}
            continue
        if is_second and role == "assistant":
            said.append(_user(NO_MESSAGE))
        said.append(message)
    return said


def _offer(offered: list[Tool]) -> Message:
    lines = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in offered)
    return {"role": "system", "content": f"<tools>\n{lines}\n</tools>"}


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _marked(mark: str, text: str) -> Message:
    return _user(f"<{mark}>\n{text}\n</{mark}>")


def _with_object(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    given = function["arguments"]
    if isinstance(given, dict):
        return call
    named = {} if given in (None, "") else {INPUT: given}
    return call | {"function": function | {"arguments": named}}


def _call_as_text(call: dict[str, Any]) -> str:
    function = {name: call["function"][name] for name in ("name", "arguments")}
    return f"<tool-call>\n{json.dumps(function, ensure_ascii=False)}\n</tool-call>"


# -- schemas ----------------------------------------------------------------------------------------------------

#: Keywords by what their value is: schemas by name, one schema, a list of schemas, a list of anything.
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_LISTS = ("required", "enum", "examples")
_KINDS = ("string", "number", "integer", "boolean", "null", "object", "array")
#: Keywords that a schema without a type may have, and what to add to it for each.
_STAND_INS: tuple[tuple[str, Callable[[Any], dict[str, Any]]], ...] = (
    ("oneOf", lambda choices: {"anyOf": choices}),
    ("const", lambda value: {"enum": [value]}),
    ("properties", lambda _: {"type": "object"}),
    ("items", lambda _: {"type": "array"}),
)


def _plain_tool(tool: Tool, is_typed: bool) -> Tool:
    function = dict(tool["function"])
    if not isinstance(function.get("description", ""), str):
        del function["description"]
    root = function.get("parameters")
    walk = _Walk(root if isinstance(root, dict) else {}, is_typed)
    function["parameters"] = {"type": "object", "properties": {}} | walk.members(root)
    return tool | {"function": function}


@dataclass(frozen=True, slots=True)
class _Walk:
    """Rewrites a schema so that every part has the type that JSON Schema prescribes; other parts are left out."""

    root: dict[str, Any]
    is_typed: bool

    def schema(self, value: Any) -> dict[str, Any]:
        plain = self.members(value)
        return _typed(plain) if self.is_typed else plain

    def members(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            return {"not": {}} if value is False else {}
        plain: dict[str, Any] = {}
        for name, part in value.items():
            if name in _NAMED:
                plain[name] = {key: self.schema(inner) for key, inner in _by_name(part).items()}
            elif name in _ONE:
                plain[name] = part if isinstance(part, bool) and name != "items" else self.schema(part)
            elif name in _SEVERAL and isinstance(part, list):
                plain[name] = [self.schema(inner) for inner in part]
            elif not _is_odd(name, part, self.root):
                plain[name] = part
        return plain


def _by_name(part: Any) -> dict[str, Any]:
    """Schemas by name; in place of a mere list of names, each with an empty schema."""
    if isinstance(part, list):
        return {name: {} for name in part if isinstance(name, str)}
    return part if isinstance(part, dict) else {}


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a type, or with a keyword that implies one."""
    reference = schema.get("$ref")
    if reference is not None and reference != "#" and not reference.startswith("#/$defs/"):
        schema = {name: value for name, value in schema.items() if name != "$ref"}
    kinds = schema.get("type")
    if isinstance(kinds, list):
        known = [kind for kind in kinds if kind in _KINDS]
        schema = schema | {"type": known or "any"}
    if not schema or any(name in schema for name in ("$ref", "anyOf", "enum", "type")):
        return schema
    for name, stand_in in _STAND_INS:
        if name in schema:
            return schema | stand_in(schema[name])
    return schema | {"type": "any"}


def _is_odd(name: str, value: Any, root: dict[str, Any]) -> bool:
    """Whether a keyword's value has another type than JSON Schema prescribes."""
    if name == "$ref":
        return not (isinstance(value, str) and _is_there(value, root))
    if name in _LISTS or name in _SEVERAL:
        return not isinstance(value, list)
    if name in ("description", "title"):
        return not isinstance(value, str)
    return name == "type" and not isinstance(value, str | list)


def _is_there(reference: str, root: dict[str, Any]) -> bool:
    """Whether a reference leads to a part of its own schema."""
    found: Any = root
    for part in _steps(reference):
        if not isinstance(found, dict) or part not in found:
            return False
        found = found[part]
    return reference.startswith("#")


def _steps(reference: str) -> Iterator[str]:
    for part in reference.removeprefix("#").split("/")[1:]:
        yield part.replace("~1", "/").replace("~0", "~")
