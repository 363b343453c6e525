"""A model that says what a script has for each conversation, in whatever dialect it is asked.

A script is a JSON object: `conversations` maps a marker to steps. A request belongs to the marker that stands first in
its users' texts ("" stands in all), or in the model's; its n-th call gets step n, the last step repeats. A step may
have `text`, `reasoning`, `tools` (`[{"name", "input"}]`; the name "*shell*" means whatever tool runs a command, its
input then is the command), `input_tokens` (the usage it reports), `fail` (an HTTP status instead of a reply) and
`break` (a stream that stops before its end: "abort" closes the connection, "end" ends the body). A call that asks to
compact its conversation gets a summary that begins with the marker, one without tools gets a short text.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from agents.proxy.canonical import ModelRequest
from agents.proxy.evidence import asks_to_compact
from agents.proxy.replies import Finish, Piece, ReasoningPiece, TextPiece, ToolUse

SHELL = "*shell*"
DEFAULT: dict[str, Any] = {
    "conversations": {
        "": [{"text": "Looking.", "tools": [{"name": SHELL, "input": "echo hello"}]}, {"text": "That is all."}]
    }
}
_COMMANDS = ("command", "cmd")


class BadScript(ValueError):
    """A script that cannot be played; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: its place in the script, and pieces, or a status of failure."""

    script: str
    pieces: tuple[Piece, ...] = ()
    status: int = 200
    input_tokens: int | None = None
    #: How its stream stops before the end: "", "abort" or "end".
    breaks: str = ""

    def finish(self) -> Finish:
        is_tool = any(isinstance(piece, ToolUse) for piece in self.pieces)
        return Finish("tool_calls" if is_tool else "stop", sum(len(repr(piece)) for piece in self.pieces) // 4)


@dataclass(slots=True)
class ScriptedModel:
    script: dict[str, Any] = field(default_factory=lambda: DEFAULT)
    _calls: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        steps = self.script.get("conversations")
        if not isinstance(steps, dict) or not steps or not all(isinstance(s, list) and s for s in steps.values()):
            raise BadScript("a script needs `conversations`: markers with at least one step each")

    def answer(self, request: ModelRequest, tool_id_prefix: str) -> Said:
        marker = self._marker(request)
        name = _name(marker)
        if asks_to_compact(request):
            text = f"<analysis>scripted analysis</analysis>\n<summary>\n{marker} scripted summary of {name}\n</summary>"
            return Said(f"compact:{name}", (TextPiece(text),))
        if (not request.tools and any(self.script["conversations"])) or marker is None:
            return Said("aux", (TextPiece(self.script.get("other", "Scripted title")),))
        steps = self.script["conversations"][marker]
        number = self._calls[marker]
        self._calls[marker] += 1
        step = steps[min(number, len(steps) - 1)]
        tag = f"{name}#{number}"
        if step.get("fail"):
            return Said(tag, status=int(step["fail"]))
        pieces: list[Piece] = []
        if step.get("reasoning"):
            pieces.append(ReasoningPiece(step["reasoning"]))
        if step.get("text"):
            pieces.append(TextPiece(step["text"]))
        for tool in step.get("tools", ()):
            use = _use(tool, request)
            if use is not None:
                pieces.append(ToolUse(tool_id_prefix + secrets.token_hex(12), *use))
        return Said(tag, tuple(pieces), input_tokens=step.get("input_tokens"), breaks=step.get("break", ""))

    def _marker(self, request: ModelRequest) -> str | None:
        """The marker that stands first in the users' texts; failing that, in the model's own."""
        users = [m for m in request.messages if m["role"] == "user"]
        for message in users + [m for m in request.messages if m["role"] == "assistant"]:
            text: str = message["content"]
            markers: list[str] = [marker for marker in self.script["conversations"] if marker in text]
            if markers:
                return min(markers, key=lambda marker: (text.find(marker), -len(marker)))
        return None


def _name(marker: str | None) -> str:
    """`[[SUB:a]]` -> sub:a; whatever else is main."""
    bare = (marker or "").strip("[]")
    kind, _, name = bare.partition(":")
    return f"sub:{name}" if kind.upper() == "SUB" else "main"


def _use(tool: dict[str, Any], request: ModelRequest) -> tuple[str, dict[str, Any]] | None:
    """(name, arguments) of a step's tool call; None where the request offers no shell."""
    if tool["name"] != SHELL:
        return tool["name"], tool["input"]
    for offered in request.tools:
        properties = offered["function"].get("parameters", {}).get("properties") or {}
        known = next((name for name in _COMMANDS if name in properties), None)
        if known is not None:
            filled = {known: tool["input"]}
            return offered["function"]["name"], filled | ({"description": "x"} if "description" in properties else {})
    return None
