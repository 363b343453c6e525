"""Tools of the Responses dialect: what the policy sees of each kind, and how its use of one goes back to the harness.

Every tool is a function to the policy. A function in a namespace has a name of both, `namespace__name`. A custom tool
is a function of one string. The tools `local_shell`, `shell` and `apply_patch`, whose schemas the API itself owns, are
functions that take what their items carry. Tools that the provider would run by itself (web search and the like) are
not offered: nobody is here to run them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agents.proxy import canonical
from agents.proxy.canonical import BadRequest, Tool
from agents.proxy.dialects.base import expect
from agents.proxy.replies import ToolUse

_SEPARATOR = "__"
_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}
_NUMBER = {"type": "integer"}


@dataclass(frozen=True, slots=True)
class WireTool:
    """A tool as the harness knows it. `kind` is the `type` of its declaration."""

    kind: str
    name: str
    namespace: str = ""


#: Tools by the names that the policy knows them by.
WireTools = Mapping[str, WireTool]


def _function(name: str, description: str, properties: dict[str, Any], required: list[str]) -> Tool:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


#: Tools whose schema is the API's own.
_OWN = {
    "local_shell": _function(
        "local_shell",
        "Run a command on this machine.",
        {"command": _STRINGS, "working_directory": _STRING, "timeout_ms": _NUMBER},
        ["command"],
    ),
    "shell": _function(
        "shell", "Run shell commands on this machine.", {"commands": _STRINGS, "timeout_ms": _NUMBER}, ["commands"]
    ),
    "apply_patch": _function(
        "apply_patch",
        "Create, update or delete one file.",
        {
            "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            "path": _STRING,
            "diff": _STRING,
        },
        ["type", "path"],
    ),
}

#: `type` of a call item -> the tool's kind, and the prefix of the item's id.
CALLS = {
    "function_call": ("function", "fc_"),
    "custom_tool_call": ("custom", "ctc_"),
    "local_shell_call": ("local_shell", "lsh_"),
    "shell_call": ("shell", "sh_"),
    "apply_patch_call": ("apply_patch", "apc_"),
}
_ITEM_OF = {kind: (item, prefix) for item, (kind, prefix) in CALLS.items()}


def read_tools(tools: list[Any]) -> tuple[list[Tool], dict[str, WireTool]]:
    """Canonical tools, and what each of their names means on the wire. Raises BadRequest."""
    offered: list[Tool] = []
    known: dict[str, WireTool] = {}
    for tool in tools:
        if not isinstance(tool, dict):
            raise BadRequest("each of tools must be an object")
        if tool.get("type") == "namespace":
            inner = tool.get("tools")
            if not isinstance(inner, list) or not all(isinstance(t, dict) for t in inner):
                raise BadRequest("a namespace among tools must hold a list of tools")
            declared = [(t, _name(tool)) for t in inner]
        else:
            declared = [(tool, "")]
        for one, namespace in declared:
            kind = expect(one, "type", str, "")
            wire = WireTool(kind, kind if kind in _OWN else _name(one), namespace)
            name = qualified(namespace, wire.name)
            found = _as_function(one, name)
            if found is not None:
                offered.append(found)
                known[name] = wire
    return offered, known


def qualified(namespace: str | None, name: str) -> str:
    """The policy's name for a tool in a namespace."""
    return f"{namespace}{_SEPARATOR}{name}" if namespace else name


def wire_tool(name: str, tools: WireTools) -> WireTool:
    """What the policy means by a name. A bare name means a namespaced tool when only one is called so."""
    if (known := tools.get(name)) is not None:
        return known
    alike = [tool for tool in tools.values() if tool.name == name]
    return alike[0] if len(alike) == 1 else WireTool("function", name)


def call_item(use: ToolUse, tool: WireTool, reply: str, index: int) -> dict[str, Any]:
    """The finished item of a tool use; `index` is its place in the reply's output."""
    kind, prefix = _ITEM_OF.get(tool.kind, _ITEM_OF["function"])
    item: dict[str, Any] = {"type": kind, "id": f"{prefix}{reply}_{index}", "call_id": use.id, "status": "completed"}
    arguments = use.arguments
    match kind:
        case "custom_tool_call":
            text = arguments.get("input")
            return item | {"name": tool.name, "input": text if isinstance(text, str) else use.arguments_json}
        case "local_shell_call":
            return item | {
                "action": {"type": "exec", "env": {}, **arguments, "command": _strings(arguments, "command")}
            }
        case "shell_call":
            return item | {"action": {**arguments, "commands": _strings(arguments, "commands")}}
        case "apply_patch_call":
            return item | {"operation": arguments}
    item |= {"name": tool.name, "arguments": use.arguments_json}
    return item | {"namespace": tool.namespace} if tool.namespace else item


def arguments_of(item: dict[str, Any]) -> tuple[str, Any]:
    """(name for the policy, arguments) of a call item that the harness echoes: the inverse of `call_item`."""
    match item["type"]:
        case "custom_tool_call":
            return str(item.get("name", "")), {"input": item.get("input", "")}
        case "local_shell_call":
            action = item.get("action")
            left_out = {"type": "exec", "env": {}}
            given = action.items() if isinstance(action, dict) else ()
            return "local_shell", {k: v for k, v in given if v is not None and left_out.get(k) != v}
        case "shell_call":
            return "shell", item.get("action") or {}
        case "apply_patch_call":
            return "apply_patch", item.get("operation") or {}
    return qualified(item.get("namespace"), str(item.get("name", ""))), item.get("arguments", "")


def _as_function(tool: dict[str, Any], name: str) -> Tool | None:
    """None for a tool that the provider would run."""
    kind = tool.get("type")
    if kind in _OWN:
        return _OWN[str(kind)]
    function: dict[str, Any] = {"name": name}
    if tool.get("description"):
        function["description"] = tool["description"]
    if kind == "function":
        function["parameters"] = canonical.schema(tool.get("parameters"), name)
    elif kind == "custom":
        grammar = tool.get("format")
        if isinstance(grammar, dict) and grammar.get("definition"):
            said = f"The input follows this {grammar.get('syntax', '')} grammar:\n{grammar['definition']}"
            function["description"] = f"{function.get('description', '')}\n{said}".lstrip("\n")
        function["parameters"] = {"type": "object", "properties": {"input": _STRING}, "required": ["input"]}
    else:
        return None
    return {"type": "function", "function": function}


def _name(tool: dict[str, Any]) -> str:
    name = tool.get("name")
    if isinstance(name, str):
        return name
    if tool.get("type") in ("function", "custom", "namespace"):
        raise BadRequest(f"a tool of type {tool['type']} must have a name")
    return str(tool.get("type"))


def _strings(arguments: dict[str, Any], name: str) -> list[str]:
    value = arguments.get(name, [])
    values = value if isinstance(value, list) else [value]
    return [v if isinstance(v, str) else orjson.dumps(v).decode() for v in values]
