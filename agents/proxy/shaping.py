"""What becomes of messages, histories and tools that a family's chat template cannot say. Pure.

A `Shape` is what a template can say; the table of them stands in `agents.proxy.families`. Whatever else a request holds
is said in another way: nothing is dropped, and nothing moves before what was said earlier. What becomes of a message
depends on those before it alone, never on later ones, so a request that goes on with a history has the same beginning.
System messages that lead are joined for that reason and later ones are not: they become marked messages of the user.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Message = dict[str, Any]
Tool = dict[str, Any]

#: Stands where a template needs a user's message and there is none.
NO_MESSAGE = "(no message)"
#: The name of what a tool was called with, where that is no object.
INPUT = "input"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a chat template can say. The first choice of each field is the usual one, the later ones say less."""

    #: joined: those that lead are one. first: so, and none later. nowhere: none at all.
    systems: Literal["anywhere", "joined", "first", "nowhere"] = "anywhere"
    #: user: the first message after the system's is the user's.
    opening: Literal["anyone", "user"] = "anyone"
    #: alternate: never two messages of the user or of the assistant in a row.
    turns: Literal["free", "alternate"] = "free"
    #: one: a turn of the assistant is one call or a text. text: no calls; a turn says them in its text.
    calls: Literal["many", "one", "text"] = "many"
    #: called: only after a turn that called a tool. text: no results; a message of the user holds them.
    results: Literal["anywhere", "called", "text"] = "anywhere"
    #: object: a call's arguments have names.
    arguments: Literal["anything", "object"] = "anything"
    #: text: the template does not say which tools there are; a system message in front of all others does.
    offers: Literal["template", "text"] = "template"
    #: plain: the template walks through them, so every part must be of the kind that JSON Schema says. typed: and each
    #: schema must have a type, or say it by one of the few keywords that the template knows.
    schemas: Literal["anything", "plain", "typed"] = "anything"


def conversation(messages: list[Message], shape: Shape, offered: list[Tool] | None = None) -> list[Message]:
    """A whole conversation, or the beginning of one, as a template of this shape can say it."""
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
    """Messages that follow others. `is_called`: the turn before them may have called tools."""
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
        return [plain | {"content": "\n".join(filter(None, [message["content"], *map(_told, calls)]))}]
    text = [plain] if message["content"] or message.get("reasoning_content") else []
    return [*text, *({"role": "assistant", "content": "", "tool_calls": [call]} for call in calls)]


def as_sampled(echo: Message, reply: Message) -> Message:
    """A recognised turn with its calls as the policy made them, without what its harness filled in; ids stay."""
    said = echo | {"content": echo["content"] or reply["content"]}
    if calls := echo.get("tool_calls"):
        sampled = zip(calls, reply.get("tool_calls", ()), strict=True)
        said["tool_calls"] = [call | {"function": use["function"]} for call, use in sampled]
    return said


def tools(offered: list[Tool], shape: Shape) -> list[Tool]:
    """The tools as a template of this shape can say them."""
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


def _told(call: dict[str, Any]) -> str:
    function = {name: call["function"][name] for name in ("name", "arguments")}
    return f"<tool-call>\n{json.dumps(function, ensure_ascii=False)}\n</tool-call>"


# -- schemas ----------------------------------------------------------------------------------------------------

#: Keywords whose values map names to schemas, are one schema, are lists of schemas, and are lists of anything.
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_LISTS = ("required", "enum", "examples")
_KINDS = ("string", "number", "integer", "boolean", "null", "object", "array")
#: What says the type of a schema that has none.
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
    """Through a schema whose parts become of the kinds that JSON Schema gives them; what is of no kind says nothing."""

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
    """Schemas by name; a list of names alone says that they are there."""
    if isinstance(part, list):
        return {name: {} for name in part if isinstance(name, str)}
    return part if isinstance(part, dict) else {}


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    """The same with a type, or with a keyword that stands for one."""
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
    """Whether a keyword's value is of another kind than JSON Schema says."""
    if name == "$ref":
        return not (isinstance(value, str) and _is_there(value, root))
    if name in _LISTS or name in _SEVERAL:
        return not isinstance(value, list)
    if name in ("description", "title"):
        return not isinstance(value, str)
    return name == "type" and not isinstance(value, str | list)


def _is_there(reference: str, root: dict[str, Any]) -> bool:
    """Whether a reference leads to a part of the schema that it stands in."""
    found: Any = root
    for part in _steps(reference):
        if not isinstance(found, dict) or part not in found:
            return False
        found = found[part]
    return reference.startswith("#")


def _steps(reference: str) -> Iterator[str]:
    for part in reference.removeprefix("#").split("/")[1:]:
        yield part.replace("~1", "/").replace("~0", "~")
