"""Conversations and tools as harnesses send them: what a chat template is asked for (agents.proxy.probing)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.proxy.shaping import Message, Tool


@dataclass(frozen=True, slots=True)
class Probe:
    """`words` stand in what the template makes of it, in this order; those `beside` them stand anywhere."""

    name: str
    messages: list[Message]
    words: tuple[str, ...]
    tools: list[Tool] | None = None
    beside: tuple[str, ...] = ()


def _said(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _call(*arguments: Any, text: str = "") -> Message:
    calls = [
        {"id": f"call_{i}", "type": "function", "function": {"name": "look", "arguments": given}}
        for i, given in enumerate(arguments)
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def _result(content: str, i: int = 0) -> Message:
    return {"role": "tool", "content": content, "tool_call_id": f"call_{i}", "name": "look"}


def _tool(parameters: Any, description: Any = "Look at orange.") -> Tool:
    return {"type": "function", "function": {"name": "look", "description": description, "parameters": parameters}}


_SYSTEM, _USER, _ANSWER = _said("system", "apple"), _said("user", "banana"), _said("assistant", "cherry")
_LOOK = _tool({"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]})
_ODD: tuple[tuple[str, Tool], ...] = (
    ("properties that are a list", _tool({"type": "object", "properties": []})),
    ("properties that are names alone", _tool({"type": "object", "properties": ["at"]})),
    ("properties that are null", _tool({"type": "object", "properties": None})),
    ("no parameters", {"type": "function", "function": {"name": "look"}}),
    ("parameters that are null", _tool(None)),
    ("parameters that are a list", _tool([])),
    ("a description that is null", _tool({"type": "object", "properties": {}}, None)),
    ("a property that is true", _tool({"type": "object", "properties": {"at": True}})),
    ("a property that is null", _tool({"type": "object", "properties": {"at": None}})),
    ("a property of two types", _tool({"type": "object", "properties": {"at": {"type": ["string", "null"]}}})),
    ("a property without a type", _tool({"type": "object", "properties": {"at": {}}})),
    ("a property's description that is null", _tool({"type": "object", "properties": {"at": {"description": None}}})),
    ("inner properties that are a list", _tool({"properties": {"at": {"type": "object", "properties": []}}})),
    ("required that is null", _tool({"type": "object", "properties": {"at": {}}, "required": None})),
    ("an enum that is null", _tool({"type": "object", "properties": {"at": {"enum": None}}})),
    ("items that are a list", _tool({"type": "object", "properties": {"at": {"type": "array", "items": []}}})),
    ("a choice of types", _tool({"properties": {"at": {"anyOf": [{"type": "string"}, {"type": "null"}]}}})),
    ("a reference that leads nowhere", _tool({"properties": {"at": {"$ref": "#/$defs/Place"}}})),
    ("a property that is only described", _tool({"properties": {"at": {"description": "Where."}}})),
    ("one of several types", _tool({"properties": {"at": {"oneOf": [{"const": "here"}, {"type": "null"}]}}})),
    ("a type that nobody knows", _tool({"type": "object", "properties": {"at": {"type": ["place", "null"]}}})),
    (
        "a reference to definitions",
        _tool({"properties": {"at": {"$ref": "#/definitions/A"}}, "definitions": {"A": {}}}),
    ),
    (
        "a reference to itself",
        _tool(
            {"properties": {"at": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}}}}
        ),
    ),
)

PROBES: tuple[Probe, ...] = (
    Probe(
        "a conversation", [_SYSTEM, _USER, _ANSWER, _said("user", "damson")], ("apple", "banana", "cherry", "damson")
    ),
    Probe("no system message", [_USER, _ANSWER, _said("user", "damson")], ("banana", "cherry", "damson")),
    Probe("two system messages", [_SYSTEM, _said("system", "fig"), _USER], ("apple", "fig", "banana")),
    Probe("a tool", [_SYSTEM, _USER], ("apple", "banana"), [_LOOK], ("look", "orange")),
    Probe(
        "two system messages and a tool", [_SYSTEM, _said("system", "fig"), _USER], ("apple", "fig", "banana"), [_LOOK]
    ),
    Probe("a system message after the user's", [_SYSTEM, _USER, _said("system", "fig")], ("apple", "banana", "fig")),
    Probe("only a later system message", [_USER, _said("system", "fig")], ("banana", "fig")),
    Probe(
        "a system message after a reply",
        [_SYSTEM, _USER, _ANSWER, _said("system", "fig"), _said("user", "damson")],
        ("apple", "banana", "cherry", "fig", "damson"),
    ),
    Probe("a system message at the end", [_USER, _ANSWER, _said("system", "fig")], ("banana", "cherry", "fig")),
    Probe("a system message alone", [_SYSTEM], ("apple",)),
    Probe("a system message alone with a tool", [_SYSTEM], ("apple",), [_LOOK]),
    Probe("two messages of the user", [_USER, _said("user", "damson")], ("banana", "damson")),
    Probe("an empty message of the user", [_SYSTEM, _said("user", "")], ("apple",)),
    Probe("an empty system message", [_said("system", ""), _USER], ("banana",)),
    Probe("an empty reply", [_USER, _said("assistant", ""), _said("user", "damson")], ("banana", "damson")),
    Probe("a reply at the beginning", [_ANSWER, _said("user", "damson")], ("cherry", "damson")),
    Probe("a reply after the system message", [_SYSTEM, _ANSWER, _USER], ("apple", "cherry", "banana")),
    Probe(
        "two replies in a row",
        [_USER, _ANSWER, _said("assistant", "grape"), _said("user", "damson")],
        ("banana", "cherry", "grape", "damson"),
    ),
    Probe("a call", [_USER, _call({"at": "lemon"}), _result("mango")], ("banana", "lemon", "mango"), [_LOOK]),
    Probe(
        "a call beside a text",
        [_USER, _call({"at": "lemon"}, text="kiwi"), _result("mango"), _ANSWER, _USER],
        ("banana", "lemon", "mango", "cherry"),
        [_LOOK],
        ("kiwi",),
    ),
    Probe(
        "two calls at once",
        [_USER, _call({"at": "lemon"}, {"at": "lime"}), _result("mango"), _result("melon", 1)],
        ("banana", "lemon", "lime", "mango", "melon"),
        [_LOOK],
    ),
    Probe(
        "a system message after a result",
        [_USER, _call({"at": "lemon"}), _result("mango"), _said("system", "fig")],
        ("banana", "lemon", "mango", "fig"),
        [_LOOK],
    ),
    Probe(
        "a user's message after a result",
        [_USER, _call({"at": "lemon"}), _result("mango"), _said("user", "damson")],
        ("banana", "lemon", "mango", "damson"),
        [_LOOK],
    ),
    Probe(
        "a call without a result",
        [_USER, _call({"at": "lemon"}), _said("user", "damson")],
        ("lemon", "damson"),
        [_LOOK],
    ),
    Probe("a result at the beginning", [_result("mango")], ("mango",)),
    Probe("a result after the system message", [_SYSTEM, _result("mango")], ("apple", "mango"), [_LOOK]),
    Probe("a result without a call", [_USER, _ANSWER, _result("mango")], ("banana", "cherry", "mango"), [_LOOK]),
    Probe("arguments that are a text", [_USER, _call("lemon"), _result("mango")], ("lemon", "mango"), [_LOOK]),
    Probe("arguments that are a list", [_USER, _call(["lemon"]), _result("mango")], ("lemon", "mango"), [_LOOK]),
    Probe("arguments that are null", [_USER, _call(None), _result("mango")], ("banana", "mango"), [_LOOK]),
    Probe(
        "nested arguments",
        [_USER, _call({"at": {"in": ["lemon", None, 1.5]}}), _result("mango")],
        ("lemon", "mango"),
        [_LOOK],
    ),
    *(Probe(name, [_USER], ("banana",), [tool]) for name, tool in _ODD),
)
