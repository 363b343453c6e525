"""What a reply is made of while it streams, and once it is whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

#: Finish reasons of our own: of a call that only wanted its input counted, and of one whose request broke the proxy.
COUNTED, BROKEN = "counted", "broken"
#: No call continues one that ended for these reasons.
UNSAMPLED = frozenset({COUNTED, BROKEN})


@dataclass(frozen=True, slots=True)
class TextPiece:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One whole tool call; `arguments` is an object."""

    id: str
    name: str
    arguments: dict[str, Any]

    @property
    def arguments_json(self) -> str:
        return orjson.dumps(self.arguments).decode()


@dataclass(frozen=True, slots=True)
class Finish:
    """The end. `reason` is one of stop, stop_sequence, length, tool_calls, or of UNSAMPLED."""

    reason: str
    output_tokens: int
    cached_tokens: int = 0
    stop_sequence: str | None = None
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a call that got no whole reply. `kind` is one of `agents.proxy.dialects.base.ERRORS`."""

    kind: str
    message: str


Piece = TextPiece | ReasoningPiece | ToolUse
Event = Piece | Finish | Failure


@dataclass(slots=True)
class Reply:
    """A reply as the harness sees it.

    Texts have no white space at their ends; a text that continues what the client began may have some in front.
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: list[ToolUse] = field(default_factory=list)
    malformed: bool = False
    #: What is wrong with its first malformed tool call.
    fault: str = ""
    #: (kind, start in the text or among the tool calls) of each stretch, in the order in which they were sampled.
    _stretches: list[tuple[type[Piece], int]] = field(default_factory=list, repr=False, compare=False)

    def add(self, piece: Piece) -> None:
        kind = type(piece)
        begins = not self._stretches or self._stretches[-1][0] is not kind
        match piece:
            case TextPiece(text):
                start, self.content = len(self.content), self.content + text
            case ReasoningPiece(text):
                start, self.reasoning = len(self.reasoning), self.reasoning + text
            case ToolUse():
                start = len(self.tool_calls)
                self.tool_calls.append(piece)
        if begins:
            self._stretches.append((kind, start))

    def pieces(self) -> list[Piece]:
        """The reply as if it had streamed in one burst; one that was read from a row has its texts first."""
        stretches = self._stretches or [(ReasoningPiece, 0), (TextPiece, 0), (ToolUse, 0)]
        found: list[Piece] = []
        for n, (kind, start) in enumerate(stretches):
            end = next((at for other, at in stretches[n + 1 :] if other is kind), None)
            if kind is ToolUse:
                found += self.tool_calls[start:end]
            elif text := (self.content if kind is TextPiece else self.reasoning)[start:end]:
                found.append(TextPiece(text) if kind is TextPiece else ReasoningPiece(text))
        return found

    def to_json(self) -> dict[str, Any]:
        calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in self.tool_calls]
        return {"content": self.content, "reasoning": self.reasoning, "tool_calls": calls}

    @classmethod
    def from_json(cls, value: dict[str, Any], malformed: bool = False) -> Reply:
        calls = [ToolUse(c["id"], c["name"], c["arguments"]) for c in value.get("tool_calls", [])]
        return cls(value.get("content", ""), value.get("reasoning", ""), calls, malformed)

    def message(self) -> dict[str, Any]:
        """The canonical assistant message that a harness echoes."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
        return message
