"""What a capture does not keep: credentials always; vendors' long prompt texts unless they are asked for.

A cut text keeps its opening words and says its length and hash, so equal texts stay equal and different ones different.
What the model said before, and what its tool calls handed over, stays readable where a user's text carries it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

_SECRET_HEADERS = re.compile(r"authorization|api-?key|cookie|token|secret|password|credential", re.IGNORECASE)
#: Headers that count or limit tokens are none of them.
_PLAIN_HEADERS = re.compile(r"^(anthropic-beta|x-ratelimit-.*|x-stainless-.*)$", re.IGNORECASE)
_SECRETS = re.compile(
    r"\b(sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|xox[abpr]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,})"
)
REDACTED = "<redacted>"

#: Texts of at most so many characters stay as they are: system prompts, users' texts, tool results.
_SHORT = {"system prompt": 160, "vendor text": 400, "tool result": 2_000}
#: How much of a cut text stays: of its beginning, and of a tool's description.
_HEAD_CHARS, _DESCRIPTION_CHARS = 120, 60
#: Said texts shorter than this are not looked for in cut texts.
_SAID_CHARS = 12
_SUMMARY_BODY = re.compile(r"<summary>\s*(.*?)\s*</summary>", re.DOTALL | re.IGNORECASE)


def headers(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Headers with credentials taken out."""
    return [[name, REDACTED if _is_secret(name) else _SECRETS.sub(REDACTED, value)] for name, value in pairs]


def secrets(value: Any) -> Any:
    """A JSON value without texts that look like keys."""
    if isinstance(value, str):
        return _SECRETS.sub(REDACTED, value)
    if isinstance(value, list):
        return [secrets(inner) for inner in value]
    if isinstance(value, dict):
        return {key: secrets(inner) for key, inner in value.items()}
    return value


class Cutter:
    """Cuts the vendors' texts of one capture. `hear` tells it what stays readable."""

    def __init__(self) -> None:
        self._said: dict[str, None] = {}
        #: A text is cut the same way whenever it comes again.
        self._cut: dict[tuple[str, str], str] = {}

    def hear(self, reply: Any) -> None:
        """A reply of the model, in any dialect: its texts and the arguments of its tool calls."""
        for text in _strings(reply):
            bodies = _SUMMARY_BODY.findall(text)
            for said in (text.strip(), *bodies, *(line.strip() for line in text.splitlines()[:4])):
                if len(said) >= _SAID_CHARS:
                    self._said[said] = None

    def body(self, body: Any) -> Any:
        """A request's body with long vendor texts cut."""
        if not isinstance(body, dict):
            return body
        cut = dict(body)
        if "system" in cut:
            cut["system"] = self._content(cut["system"], "system prompt")
        if isinstance(cut.get("instructions"), str):
            cut["instructions"] = self._text(cut["instructions"], "system prompt")
        for name in ("messages", "input"):
            if isinstance(cut.get(name), list):
                cut[name] = [self._message(message) for message in cut[name]]
        if isinstance(cut.get("tools"), list):
            cut["tools"] = [_tool(tool) for tool in cut["tools"]]
        return cut

    def _message(self, message: Any) -> Any:
        if not isinstance(message, dict):
            return message
        role, kind = message.get("role"), str(message.get("type", ""))
        if role in ("system", "developer"):
            return {**message, "content": self._content(message.get("content"), "system prompt")}
        if role == "user":
            return {**message, "content": self._content(message.get("content"), "vendor text")}
        if role == "tool":
            return {**message, "content": self._content(message.get("content"), "tool result")}
        if kind.endswith("_output") and "output" in message:
            return {**message, "output": self._content(message["output"], "tool result")}
        return message

    def _content(self, content: Any, what: str) -> Any:
        if isinstance(content, str):
            return self._text(content, what)
        if not isinstance(content, list):
            return content
        return [self._block(block, what) for block in content]

    def _block(self, block: Any, what: str) -> Any:
        if not isinstance(block, dict):
            return block
        if block.get("type") == "tool_result":
            return {**block, "content": self._content(block.get("content"), "tool result")}
        return {**block, "text": self._text(block["text"], what)} if isinstance(block.get("text"), str) else block

    def _text(self, text: str, what: str) -> str:
        bare = text.rstrip("\n")
        if len(bare) <= _SHORT[what] or bare.startswith("x-anthropic-billing-header"):
            return text
        known = (what, _hash(bare))
        if known not in self._cut:
            carried = [said for said in self._said if said in bare] if what == "vendor text" else []
            carried = [said for said in carried if not any(said != other and said in other for other in carried)]
            own = "".join(f"\n…own text: {said}" for said in carried)
            self._cut[known] = f"{_head(bare)}<{what} {len(bare)} chars, sha256 {known[1]}>{own}"
        return self._cut[known] + text[len(bare) :]


def _is_secret(name: str) -> bool:
    return bool(_SECRET_HEADERS.search(name)) and not _PLAIN_HEADERS.match(name)


def _head(text: str) -> str:
    """Opening words on one line."""
    words = " ".join(text[: 2 * _HEAD_CHARS].split())[:_HEAD_CHARS].rsplit(" ", 1)[0]
    return f"{words} " if words else ""


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _tool(tool: Any) -> Any:
    """A tool's name and the names of its properties."""
    if not isinstance(tool, dict):
        return tool
    cut = dict(tool)
    if isinstance(cut.get("description"), str) and len(cut["description"]) > _DESCRIPTION_CHARS:
        cut["description"] = f"<tool description {len(tool['description'])} chars, sha256 {_hash(tool['description'])}>"
    for name in ("input_schema", "parameters"):
        if isinstance(cut.get(name), dict):
            properties = cut[name].get("properties")
            names: dict[str, Any] = {key: {} for key in properties} if isinstance(properties, dict) else {}
            cut[name] = {"type": "object", "properties": names}
    if isinstance(cut.get("function"), dict):
        cut["function"] = _tool(cut["function"])
    if isinstance(cut.get("tools"), list):
        cut["tools"] = [_tool(inner) for inner in cut["tools"]]
    return cut


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
