"""What the proxy keeps of one execution attempt while it lives (algorithms.md §2, §4)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.config import RunConfig
from agents.core.codec import Int32s, decode_call
from agents.proxy import canonical, matching
from agents.proxy.canonical import Message, ModelRequest
from agents.proxy.matching import CallIndex, Match, RecordedCall
from agents.proxy.profiles.base import AUXILIARY, MAIN, SUB_AGENT, Profile, family, features
from agents.proxy.rendering import BUNDLED_POLICY, CannotBridge, Rendering
from agents.proxy.replies import COUNTED, Reply
from agents.proxy.store import ExecutionRow

if TYPE_CHECKING:
    from agents.proxy.call import LiveCall

#: Ended calls that a marked retry can still be answered from.
CALLS_KEPT = 8
#: About what a recorded call takes in memory besides its tokens and its reply: objects, hashes, entries of the index.
CALL_BYTES = 2500
#: About what a recorded call takes in memory besides its tokens and its reply: objects, hashes, entries of the index.
CALL_BYTES = 2500


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with its place in the record and its exact ids."""

    match: Match
    role: str
    conversation: str
    branch_reason: str
    false_fork: bool
    #: How much of the parent's path the input begins with.
    prefix_tokens: int
    new_input_ids: Int32s
    input_ids: Int32s
    #: Canonical messages that the call adds, for the transcript.
    messages: list[Message]

    def without_tokens(self) -> Prepared:
        """What is left when the call is recorded: its place."""
        none = np.empty(0, np.int32)
        return replace(self, new_input_ids=none, input_ids=none, messages=[])

    def without_tokens(self) -> Prepared:
        """What is left when the call is recorded: its place."""
        none = np.empty(0, np.int32)
        return replace(self, new_input_ids=none, input_ids=none, messages=[])


@dataclass(slots=True)
class HeldClock:
    """Time during which at least one call of the execution waits for scheduling; reported in instalments."""

    num_held: int = 0
    _since: float = 0.0

    def enter(self, now: float) -> None:
        self._since = now if self.num_held == 0 else self._since
        self.num_held += 1

    def leave(self) -> None:
        self.num_held -= 1

    def take(self, now: float) -> float:
        """Seconds not taken before. Take before leaving."""
        held, self._since = now - self._since, now
        return held if self.num_held else 0.0


@dataclass(slots=True, eq=False)
class Session:
    execution: ExecutionRow
    config: RunConfig
    profile: Profile
    rendering: Rendering
    index: CallIndex = field(default_factory=CallIndex)
    next_number: int = 0
    sticky_cell: int | None = None
    held: HeldClock = field(default_factory=HeldClock)
    num_in_flight: int = 0
    used_at: float = 0.0
    _recent: OrderedDict[str, LiveCall] = field(default_factory=OrderedDict)
    _num_sized: int = 0
    _num_tokens: int = 0
    _num_bytes: int = 0
    _num_sized: int = 0
    _num_tokens: int = 0
    _num_bytes: int = 0
    _num_conversations: int = 0

    @property
    def context_tokens(self) -> int:
        """Longest prompt + reply."""
        wanted = self.config.policy_context_tokens or self.config.context_tokens
        return min(wanted, self.rendering.max_tokens or wanted)

    def prepare(self, request: ModelRequest, headers: Mapping[str, str]) -> Prepared:
        """Find the request's place and render what it adds. Runs in a worker thread; changes nothing here."""
        index, messages = self.index, request.messages
        match = index.match(messages, request.tools)
        role, conversation = self._place(request, headers, match)
        reason, false_fork = matching.branch(match, messages, conversation, role, index)
        try:
            prefix, new, added = self._extended(request, match)
        except CannotBridge:
            prefix, new, added = self._rendered(request, match)
            if match.parent is not None and match.after == "reply" and prefix < match.parent.path_tokens:
                reason, false_fork = reason or "re-rendered", True
        new_ids = np.asarray(new, np.int32)
        input_ids = matching.path_ids(match.parent, prefix, (new_ids,))
        return Prepared(match, role, conversation, reason, false_fork, prefix, new_ids, input_ids, added)

    def _extended(self, request: ModelRequest, match: Match) -> tuple[int, list[int], list[Message]]:
        """(ids kept of the parent's path, ids after them, messages added), by extension. Raises CannotBridge."""
        messages, parent = request.messages, match.parent
        if parent is None:
            prefix, new = 0, self.rendering.prompt(messages, request.tools, self._body)
            added = ([{"role": "tools", "tools": request.tools}] if request.tools else []) + messages
        else:
            reached = parent.path_tokens if match.after == "reply" else parent.input_tokens
            rest = self.rendering.continuation(messages[match.start :], match.after, self._body)
            closing = self._closing(parent) if match.after == "reply" else []
            prefix, new = reached - rest.num_dropped, closing + rest.ids
            added = messages[match.start :]
        return prefix, self._reopen(new) if request.continues_last else new, added

    def _rendered(self, request: ModelRequest, match: Match) -> tuple[int, list[int], list[Message]]:
        """The same for the whole request rendered anew: what it shares with the parent's path is kept (§2.1)."""
        messages = list(request.messages)
        for at, call in match.recognised:
            reasoning = self.rendering.reasoning_of(call.output_ids.tolist())
            messages[at] = messages[at] | ({"reasoning_content": reasoning} if reasoning else {})
        begun = messages.pop()["content"] if request.continues_last else ""
        ids = self.rendering.whole(messages, request.tools) + self.rendering.tokenizer.encode(begun)
        path = match.parent.path(match.parent.path_tokens) if match.parent is not None else np.empty(0, np.int32)
        length = min(len(path), len(ids))
        differs = np.flatnonzero(path[:length] != np.asarray(ids[:length], np.int32))
        prefix = int(differs[0]) if len(differs) else length
        return prefix, ids[prefix:], [{"role": "tools", "tools": request.tools}, *request.messages]

    def count(self, request: ModelRequest) -> Prepared:
        """A request that wants to know its length and no reply; it takes a number and nothing continues it."""
        counted = self.prepare(request, {})
        return replace(counted, role=AUXILIARY, conversation=AUXILIARY, branch_reason="", false_fork=False)

    def size(self) -> tuple[int, int]:
        """(unique tokens held, bytes that hold them and what is known of their calls)."""
        for call in self.index.calls[self._num_sized :]:
            self._num_sized += 1
            self._num_tokens += len(call.new_input_ids) + len(call.output_ids)
            self._num_bytes += call.new_input_ids.nbytes + call.output_ids.nbytes + CALL_BYTES
            self._num_bytes += len(call.reply["content"]) + 64 * len(call.reply.get("tool_calls", ()))
        return self._num_tokens, self._num_bytes

    def size(self) -> tuple[int, int]:
        """(unique tokens held, bytes that hold them and what is known of their calls)."""
        for call in self.index.calls[self._num_sized :]:
            self._num_sized += 1
            self._num_tokens += len(call.new_input_ids) + len(call.output_ids)
            self._num_bytes += call.new_input_ids.nbytes + call.output_ids.nbytes + CALL_BYTES
            self._num_bytes += len(call.reply["content"]) + 64 * len(call.reply.get("tool_calls", ()))
        return self._num_tokens, self._num_bytes

    def open(self, call: LiveCall) -> None:
        """A call begins: it takes the next number and can be joined by its retries."""
        call.number = self.take_number()
        if not call.prepared.conversation:
            self._num_conversations += 1
            name = f"{family(call.prepared.role)}-{self._num_conversations}"
            call.prepared = replace(call.prepared, conversation=name)
        self.num_in_flight += 1
        self._recent[call.request_hash] = call
        self._recent.move_to_end(call.request_hash)

    def take_number(self) -> int:
        """The number of the next call."""
        number, self.next_number = self.next_number, self.next_number + 1
        return number

    def close(self, call: LiveCall) -> None:
        self.num_in_flight -= 1
        ended = [key for key, other in self._recent.items() if other.is_done]
        for key in ended[: max(0, len(ended) - CALLS_KEPT)]:
            del self._recent[key]

    def retried(self, request_hash: str, headers: Mapping[str, str], prepared: Prepared) -> LiveCall | None:
        """The call that this request repeats, if the client says so or the profile tells (algorithms.md §2.4)."""
        call = self._recent.get(request_hash)
        if call is None or call.has_failed:
            return None
        if headers.get("x-stainless-retry-count", "0") not in ("", "0"):
            return call
        named = bool(self.profile.conversation_headers) and prepared.conversation == call.prepared.conversation
        return call if named and not self.profile.marks_retries and not call.acknowledged else None

    def record(self, recorded: RecordedCall) -> None:
        """A committed call: later requests may continue it."""
        self.index.add(recorded)

    def restore(self, rows: list[Any]) -> None:
        """Rebuild the record from the database's rows, oldest first."""
        by_number: dict[int, RecordedCall] = {}
        for row in rows:
            if row.finish_reason == COUNTED:
                continue
            delta, parent = decode_call(row.tokens), by_number.get(row.parent_number)
            messages, key, before, tools = row.messages, canonical.context_key([]), 0, []
            if messages and messages[0]["role"] == "tools":
                tools, messages = messages[0]["tools"], messages[1:]
                key = canonical.context_key(tools)
            elif parent is not None:
                after_reply = row.prefix_tokens > parent.input_tokens
                key, before = (
                    (parent.full_key, parent.num_messages + 1)
                    if after_reply
                    else (parent.prompt_key, parent.num_messages)
                )
            for message in messages:
                linked = self.index.recognise(message) if message["role"] == "assistant" else None
                key = canonical.extend_key(key, linked.reply_key if linked else canonical.message_key(message))
            call = RecordedCall(
                number=row.number,
                parent=parent,
                prefix_tokens=row.prefix_tokens,
                new_input_ids=delta.new_input_ids,
                output_ids=delta.output_ids,
                num_messages=before + len(messages),
                prompt_key=key,
                reply=Reply.from_json(row.reply).message(),
                role=row.role,
                conversation=row.conversation,
                opening_key=parent.opening_key if parent else canonical.opening_key(messages, tools),
            )
            by_number[row.number] = call
            self.index.add(call)
        self.next_number = max((row.number for row in rows), default=-1) + 1
        self._num_conversations = len(self.index.last_of)

    def _place(self, request: ModelRequest, headers: Mapping[str, str], match: Match) -> tuple[str, str]:
        """Role and conversation (algorithms.md §4); "" for a conversation that begins here."""
        seen = features(request, headers)
        role, parent = self.profile.role(seen), match.parent
        if role is None:
            role = self._role_by_shape(request, match)
        if role == AUXILIARY:
            return role, AUXILIARY
        named = self.profile.conversation(seen)
        if named:
            return role, named
        if parent is not None and family(parent.role) == family(role):
            return role, parent.conversation
        if family(role) == MAIN:
            return role, MAIN
        continued = self._compacted(request.messages, role)
        if continued is not None:
            return role, continued.conversation
        return role, ""

    def _role_by_shape(self, request: ModelRequest, match: Match) -> str:
        """For harnesses that nobody described: other tools or another system prompt than main's make a sub-agent."""
        known = match.parent or self._opened_alike(request)
        if known is not None:
            return family(known.role)
        return SUB_AGENT if self.index.calls else MAIN

    def _opened_alike(self, request: ModelRequest) -> RecordedCall | None:
        return self.index.by_opening.get(canonical.opening_key(request.messages, request.tools))

    def _compacted(self, messages: list[Message], role: str) -> RecordedCall | None:
        """The summary call whose reply these messages quote: they go on with its conversation."""
        texts = [m["content"] for m in messages if m["role"] == "user"]
        summaries = [
            c
            for c in list(self.index.last_of.values())
            if c.role.endswith("-summary") and family(c.role) == family(role)
        ]
        return next((c for c in reversed(summaries) if any(c.reply["content"].strip() in text for text in texts)), None)

    def _body(self, message: Message) -> list[int]:
        """Ids of an assistant turn: the recorded ones where the policy sampled it."""
        call = self.index.recognise(message)
        if call is None:
            return self.rendering.assistant(message)
        ids: list[int] = call.output_ids.tolist()
        return ids + self._closing(call)

    def _closing(self, call: RecordedCall) -> list[int]:
        """The closing token that the template adds where the policy sampled none."""
        closed = len(call.output_ids) and int(call.output_ids[-1]) in self.rendering.stop_ids
        return [] if closed else [self.rendering.close_id]

    def _reopen(self, ids: list[int]) -> list[int]:
        """The last assistant turn is to be continued: drop its end and the next generation prompt."""
        rendering = self.rendering
        end = len(ids) - len(rendering.separator) - len(rendering.generation_prompt)
        return ids[: end - 1] if end > 0 and ids[end - 1] in rendering.stop_ids else ids


def policy_folder(config: RunConfig) -> Path:
    """Where a run's tokenizer and template are."""
    return Path(config.policy_path) if config.policy_path else BUNDLED_POLICY
