"""Input items of the Responses dialect to canonical messages.

A reply comes back as several items: reasoning, texts and tool calls. They are one assistant turn again. The ids that
this proxy gave its items say which belong together; without them a reasoning item, or a text right after a text, opens
the next turn.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from agents.proxy import canonical
from agents.proxy.canonical import BadRequest, Message
from agents.proxy.dialects.base import expect
from agents.proxy.dialects.responses_tools import CALLS, arguments_of

_ROLES = {"system": "system", "developer": "system", "user": "user"}
_OUTPUTS = frozenset(f"{call}_output" for call in CALLS)
#: Items by which a harness or a provider takes notes; the policy neither writes nor reads them.
_NOTES = frozenset({"ghost_snapshot", "web_search_call", "mcp_list_tools"})
_OWN_ID = re.compile(r"[a-z]+_([0-9a-f]{32})_[0-9]+")


def read_input(value: Any) -> list[Message]:
    """Raises BadRequest."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not value:
        raise BadRequest("input must be a string or a list of at least one item")
    reader = _Reader()
    for i, item in enumerate(value):
        if not isinstance(item, dict):
            raise BadRequest(f"input[{i}] must be an object")
        reader.read(item, f"input[{i}]")
    if not reader.messages:
        raise BadRequest("input holds nothing that anybody said: send at least one message, tool call or tool result")
    return reader.messages


class _Reader:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        #: The assistant turn that items may still join, the reply that it is, and the kind of its last item.
        self._turn: Message | None = None
        self._reply = ""
        self._last = ""
        #: Tool results came after it: only items of the same reply join.
        self._is_answered = False

    def read(self, item: dict[str, Any], where: str) -> None:
        kind = expect(item, "type", str) or ("message" if "role" in item else "")
        if kind == "message" and item.get("role") == "assistant":
            content = item.get("content")
            texts = [content] if isinstance(content, str) else _texts(content, f"{where}.content")
            self._join(item, "message")["content"] += "".join(texts)
        elif kind == "message":
            self._close()
            self.messages.append(_other(item, where))
        elif kind == "reasoning":
            self._join(item, "reasoning")
        elif kind in CALLS:
            name, arguments = arguments_of(item)
            id = str(item.get("call_id") or item.get("id") or "")
            self._join(item, "call").setdefault("tool_calls", []).append(canonical.tool_call(id, name, arguments))
        elif kind in _OUTPUTS:
            self._is_answered = True
            id = str(item.get("call_id") or item.get("id") or "")
            self.messages.append({"role": "tool", "tool_call_id": id, "content": _output(item, where)})
        elif kind == "item_reference":
            raise BadRequest(f"{where} refers to a stored item; nothing is stored here: send the item itself")
        elif kind not in _NOTES:
            raise BadRequest(f"{where} is an item of type {kind!r} that is not understood")

    def _join(self, item: dict[str, Any], kind: str) -> Message:
        """The assistant turn that an item belongs to."""
        found = _OWN_ID.fullmatch(str(item.get("id") or ""))
        reply = found[1] if found else ""
        if reply and self._reply:
            same = reply == self._reply
        else:
            opens = kind == "reasoning" if kind != "message" else self._last == "message"
            same = not self._is_answered and not (opens and self._last not in ("", "reasoning"))
        if self._turn is None or not same:
            self._close()
            self._turn = {"role": "assistant", "content": ""}
            self.messages.append(self._turn)
        self._reply, self._last = reply or self._reply, kind
        return self._turn

    def _close(self) -> None:
        self._turn, self._reply, self._last, self._is_answered = None, "", "", False


def _other(item: dict[str, Any], where: str) -> Message:
    role = expect(item, "role", str, "")
    if role not in _ROLES:
        raise BadRequest(f"{where}.role is {role!r}; known roles: developer, system, user, assistant")
    return {"role": _ROLES[role], "content": canonical.text_of(item.get("content"), f"{where}.content")}


def _texts(content: Any, where: str) -> list[str]:
    if content is None:
        return []
    if not isinstance(content, list):
        raise BadRequest(f"{where} is neither a string nor a list of parts")
    return [canonical.block_text(part, where) for part in content]


def _output(item: dict[str, Any], where: str) -> str:
    """What a tool gave back, as text."""
    output = item.get("output")
    if item["type"] == "apply_patch_call_output":
        return str(output or item.get("status", ""))
    if item["type"] == "shell_call_output" and isinstance(output, list):
        return "\n".join(_ran(part) for part in output if isinstance(part, dict))
    if isinstance(output, dict):
        content = output.get("content")
        return content if isinstance(content, str) else orjson.dumps(output).decode()
    return canonical.text_of(output, f"{where}.output")


def _ran(part: dict[str, Any]) -> str:
    outcome = part.get("outcome")
    ended = outcome if isinstance(outcome, dict) else {}
    code = "timed out" if ended.get("type") == "timeout" else f"exit code {ended.get('exit_code', 0)}"
    texts = [str(part.get("stdout") or ""), str(part.get("stderr") or ""), code]
    return canonical.join_blocks([text for text in texts if text])
