"""Sampled ids to the pieces of a reply, while they arrive (docs/proxy-dialects.md).

Text goes out as soon as no later token can change it: half characters, white space that may turn out to be trailing,
and the beginning of a stop string wait. A tool call goes out whole, at its closing token. A malformed one, and one that
no JSON can say to a harness, goes out as the text that it is and marks the reply with the reason. Replies of a family
whose thoughts and tool calls no single tokens mark are read by its renderer when they are whole.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from renderers.base import ToolCallParseStatus

from agents.proxy import canonical
from agents.proxy.rendering import Rendering
from agents.proxy.replies import Piece, ReasoningPiece, Reply, TextPiece, ToolUse

_START, _REASONING, _TEXT, _TOOL = range(4)


class ReplyParser:
    """Reads one reply. `reply` holds what has gone out so far."""

    def __init__(
        self,
        rendering: Rendering,
        stop: Sequence[str] = (),
        tool_id_prefix: str = "call_",
        tools: Sequence[dict[str, Any]] = (),
        continues: bool = False,
    ) -> None:
        self._rendering = rendering
        self._decoder = rendering.tokenizer.incremental()
        self._stop = tuple(s for s in stop if s)
        self._tool_id_prefix = tool_id_prefix
        #: Their schemas say of what type an argument is, in formats that write all of them as text.
        self._tools = list(tools) or None
        #: The client began the text: white space right after that is part of it.
        self._continues = continues
        self._state = _TEXT if continues else _REASONING if rendering.opens_thinking else _START
        self._block: list[int] = []
        self._held = ""
        self._drafted: list[int] | None = None
        self._special = {
            rendering.tool_start_id,
            rendering.tool_end_id,
            rendering.think_start_id,
            rendering.think_end_id,
            *rendering.stop_ids,
        }
        self.reply = Reply()
        #: Ids of the reasoning, with those that mark its beginning and end.
        self.reasoning_tokens = 0
        #: The stop string that ended the text, once one did.
        self.stopped_by: str | None = None

    def feed(self, ids: Sequence[int]) -> list[Piece]:
        """Take in the next ids; returns what they add to the reply."""
        if not self._rendering.is_marked:
            self._block += ids
            return []
        pieces: list[Piece] = []
        run: list[int] = []
        for i in ids:
            was_reasoning = self._state == _REASONING
            if self._drafted is not None:
                self._drafted.append(i)
            if self._state == _TOOL:
                if i not in self._rendering.stop_ids:
                    self._block.append(i)
                if i == self._rendering.tool_end_id:
                    self._close_tool(pieces)
            elif i in self._special:
                self._take(run, pieces)
                run = []
                self._switch(i, pieces)
            else:
                run.append(i)
            self.reasoning_tokens += was_reasoning or self._state == _REASONING
        self._take(run, pieces)
        return pieces

    def finish(self) -> list[Piece]:
        """No more ids will come; returns what was still held back."""
        pieces: list[Piece] = []
        if not self._rendering.is_marked:
            self._read_whole(pieces)
            return pieces
        if self._state == _REASONING and self._drafted is not None:
            # A tool call ended the reasoning, which was never closed.
            drafted, self._drafted, self._state = self._drafted, None, _TEXT
            self.reasoning_tokens -= len(drafted)
            self._held = ""
            return [*self.feed(drafted), *self.finish()]
        self._text(self._decoder.flush(), pieces)
        if self._state == _TOOL:
            self._close_tool(pieces)
        if (self._state == _TEXT and not self.stopped_by) or self._state == _REASONING:
            self._emit(self._held.rstrip(), pieces)
        self._held = ""
        return pieces

    def _switch(self, i: int, pieces: list[Piece]) -> None:
        rendering = self._rendering
        if i in rendering.stop_ids:
            return
        if i == rendering.think_start_id and self._state == _START:
            self._state = _REASONING
        elif i == rendering.think_end_id and self._state == _REASONING:
            if self._drafted is None:
                self._emit(self._held.rstrip(), pieces)
            else:
                self._emit((self._held + self._rendering.tokenizer.decode(self._drafted[:-1])).rstrip(), pieces)
                self._drafted = None
            self._state, self._held = _TEXT, ""
        elif i == rendering.tool_start_id and self._state == _REASONING:
            self._drafted = self._drafted or [i]
        elif i == rendering.tool_start_id:
            self._state, self._block = _TOOL, [i]
        else:
            self._take([i], pieces)

    def _take(self, ids: list[int], pieces: list[Piece]) -> None:
        if ids and not (self._state == _REASONING and self._drafted is not None):
            self._text(self._decoder.feed(ids), pieces)

    def _text(self, text: str, pieces: list[Piece]) -> None:
        if not text or self.stopped_by or self._state == _TOOL:
            return
        self._held += text
        if self._state == _START and self._held.strip():
            self._state = _TEXT
        if self._state == _TEXT and self._stop and self._cut_at_stop(pieces):
            return
        ready = len(self._held.rstrip())
        if self._state == _TEXT and self._stop:
            ready = min(ready, self._safe_length())
        if ready:
            self._emit(self._held[:ready], pieces)
            self._held = self._held[ready:]

    def _cut_at_stop(self, pieces: list[Piece]) -> bool:
        found = [(at, s) for s in self._stop if (at := self._held.find(s)) >= 0]
        if not found:
            return False
        at, self.stopped_by = min(found)
        self._emit(self._held[:at].rstrip(), pieces)
        self._held = ""
        return True

    def _safe_length(self) -> int:
        """Characters held that no stop string can begin in."""
        longest = max(map(len, self._stop)) - 1
        for at in range(max(0, len(self._held) - longest), len(self._held)):
            if any(s.startswith(self._held[at:]) for s in self._stop):
                return at
        return len(self._held)

    def _emit(self, text: str, pieces: list[Piece]) -> None:
        """Send text; white space before the first character of a reply's text or reasoning is dropped."""
        begun = self.reply.reasoning if self._state == _REASONING else self.reply.content or self._continues
        text = text if begun else text.lstrip()
        if text:
            self._add(ReasoningPiece(text) if self._state == _REASONING else TextPiece(text), pieces)

    def _close_tool(self, pieces: list[Piece]) -> None:
        block, self._block, self._state = self._block, [], _TEXT
        parsed = self._parsed(block)
        calls = parsed.tool_calls if parsed is not None else []
        uses = [use for call in calls if (use := self._use(call)) is not None]
        if calls and len(uses) == len(calls):
            self._emit_held(pieces)
            for use in uses:
                self._add(use, pieces)
            return
        self._blame("no tool call stands between its marks")
        if not self.stopped_by:
            self._held += self._rendering.tokenizer.decode(block)
            self._emit_held(pieces)

    def _read_whole(self, pieces: list[Piece]) -> None:
        ids, self._block = self._block, []
        parsed = self._parsed(ids)
        if parsed is None:
            self._state, self._held = _TEXT, self._rendering.tokenizer.decode(ids)
            if not self._cut_at_stop(pieces):
                self._emit(self._held.rstrip(), pieces)
            return
        reasoning = (parsed.reasoning_content or "").strip()
        if reasoning:
            self.reasoning_tokens = len(self._rendering.tokenizer.encode(reasoning))
            self._add(ReasoningPiece(reasoning), pieces)
        uses = [(call, self._use(call)) for call in parsed.tool_calls]
        self._state, self._held = _TEXT, parsed.content
        self._held += "".join(call.raw for call, use in uses if use is None)
        if not self._cut_at_stop(pieces):
            self._emit(self._held.rstrip(), pieces)
        for _, use in uses:
            if use is not None:
                self._add(use, pieces)

    def _parsed(self, ids: list[int]) -> Any:
        """What the renderer reads in ids; None where it cannot, which marks the reply."""
        try:
            return self._rendering.renderer.parse_response(ids, tools=self._tools)
        except Exception as error:  # a policy samples anything: thousands of digits, thousands of brackets
            self._blame(f"its parser gave up: {type(error).__name__}: {error}"[:200])
            return None

    def _blame(self, why: str) -> None:
        self.reply.malformed, self.reply.fault = True, self.reply.fault or why

    def _use(self, call: Any) -> ToolUse | None:
        """None for a malformed call."""
        if call.status is not ToolCallParseStatus.OK:
            why = f"the tool call is {call.status.value.replace('_', ' ')}"
        elif not isinstance(call.name, str) or not isinstance(call.arguments, dict):
            why = "its name is no text or its arguments are no object"
        else:
            why = canonical.unwritable([call.name, call.arguments])
        if why:
            self._blame(why)
            return None
        return ToolUse(self._tool_id_prefix + secrets.token_hex(12), call.name, call.arguments)

    def _emit_held(self, pieces: list[Piece]) -> None:
        kept = self._held.rstrip()
        if not self.stopped_by and kept:
            self._emit(kept, pieces)
        self._held = self._held[len(kept) :]

    def _add(self, piece: Piece, pieces: list[Piece]) -> None:
        self.reply.add(piece)
        pieces.append(piece)
