"""The record of one execution attempt: finds each request's place in it and the exact ids (docs/algorithms.md §2–§4).

The recording proxy and the replay of captured traffic share it: what one does with a request the other does too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from agents.core.codec import Int32s, decode_call
from agents.proxy import canonical, matching, shaping
from agents.proxy.branches import TRUE_BRANCHES, Departure, branch
from agents.proxy.branches import departure as departing
from agents.proxy.canonical import Message, ModelRequest
from agents.proxy.conversations import Conversations, Place
from agents.proxy.matching import CallIndex, Match, PriorCall, Turn
from agents.proxy.profiles.base import AUXILIARY, Profile
from agents.proxy.rendering import CannotBridge, Rendering
from agents.proxy.replies import UNSAMPLED, Reply


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with its place in the record and its exact ids. `conversation` is "" if the request begins one."""

    match: Match
    place: Place
    role: str
    conversation: str
    branch_reason: str
    #: What it should have kept, if it is a false fork.
    departure: Departure | None
    #: So many ids of the parent's path are the beginning of its input.
    prefix_tokens: int
    new_input_ids: Int32s
    input_ids: Int32s
    #: Canonical messages that the call adds, for the transcript.
    messages: list[Message]
    opening_key: bytes = b""
    #: The beginning of the reply, if the client gave one (a prefill).
    begun: Message | None = None

    @property
    def false_fork(self) -> bool:
        return self.departure is not None

    def departure_shown(self, rendering: Rendering) -> dict[str, Any]:
        """Of a false fork: whose tokens it leaves, at which position, and the recorded and given ids; else empty."""
        left = self.departure
        if left is None:
            return {}
        return {
            "call": left.call.number,
            "position": left.position,
            "recorded_ids": list(left.recorded_ids),
            "recorded_text": rendering.tokenizer.decode(left.recorded_ids),
            "given_ids": list(left.given_ids),
            "given_text": rendering.tokenizer.decode(left.given_ids),
        }

    def without_tokens(self) -> Prepared:
        """The same without ids and messages: a recorded call has them in its row."""
        none = np.empty(0, np.int32)
        return replace(self, new_input_ids=none, input_ids=none, messages=[])

    def prior_call(self, number: int, num_messages: int, output_ids: Int32s, reply: Message) -> PriorCall:
        """What later calls need of this one."""
        match, begun = self.match, self.begun
        echo = next((m for m in reversed(self.messages) if m["role"] == "assistant"), None)
        return PriorCall(
            number=number,
            parent=match.parent,
            prefix_tokens=self.prefix_tokens,
            new_input_ids=self.new_input_ids,
            output_ids=output_ids,
            num_messages=num_messages - (begun is not None),
            prompt_key=match.prompt_key,
            reply=reply,
            role=self.role,
            conversation=self.conversation,
            opening_key=self.opening_key,
            spoken_key=match.spoken_keys[-1],
            is_after_reply=match.after == "reply",
            kept=match.kept,
            echo=echo,
            begun=begun,
            begun_key=match.keys[-2] if begun is not None else b"",
            begun_spoken_key=match.spoken_keys[-2] if begun is not None else b"",
        )


def unplaced() -> Prepared:
    """Stands for a request that could not be prepared: it has no place and no ids."""
    none = np.empty(0, np.int32)
    return Prepared(
        Match(None, "prompt", 0, b"", ()), Place(AUXILIARY, None), AUXILIARY, AUXILIARY, "", None, 0, none, none, []
    )


@dataclass(slots=True, eq=False)
class CallHistory:
    profile: Profile
    rendering: Rendering
    index: CallIndex = field(default_factory=CallIndex)
    conversations: Conversations = field(init=False)

    def __post_init__(self) -> None:
        self.conversations = Conversations(self.profile)

    def prepare(self, request: ModelRequest, headers: Mapping[str, str], path: str = "") -> Prepared:
        """Find the request's place and render what it adds. Changes nothing, so it may run beside others."""
        match = self.index.match(request.messages, request.tools)
        place = self.conversations.place(request, headers, match, path)
        is_rendered = False
        try:
            prefix, new, added = self._extended(request, match)
        except CannotBridge:
            prefix, new, added = self._rendered(request, match)
            is_rendered = True
        new_ids = np.asarray(new, np.int32)
        input_ids = matching.path_ids(match.parent, prefix, (new_ids,))
        reason, departure = "", None
        if place.role != AUXILIARY:
            reason, departure = branch(
                match,
                request.messages,
                place.name,
                place.role,
                place.state(),
                input_ids,
                prefix,
                match.start,
            )
        if is_rendered and place.role != AUXILIARY and reason not in TRUE_BRANCHES:
            # After rendering anew even the tokens of turns before `match.start` may differ, so all are compared.
            departure = departing(match, place.name, input_ids, prefix, 0)
            reason = reason if departure is None else "re-rendered"
        opening = canonical.opening_key(request.messages, request.tools)
        begun = request.messages[-1] if request.continues_last else None
        return Prepared(
            match, place, place.role, place.name, reason, departure, prefix, new_ids, input_ids, added, opening, begun
        )

    def begin(self, number: int, request: ModelRequest, prepared: Prepared) -> Prepared:
        """Enter a call that begins; its conversation has a name from now on."""
        match = prepared.match
        start = match.start if match.parent is not None else 0
        name = self.conversations.begin(number, request, prepared.place, prepared.opening_key, start)
        return replace(prepared, conversation=name)

    def add(self, call: PriorCall) -> None:
        """Enter a call that is recorded: later requests may continue it."""
        self.index.add(call)
        self.conversations.add(call)

    def restore(self, rows: Iterable[Any]) -> None:
        """Enter the rows of agents_call, oldest first; those of calls without a sampled reply are left out."""
        by_number: dict[int, PriorCall] = {}
        for row in rows:
            if row.finish_reason in UNSAMPLED:
                continue
            call, request = self._restored(row, by_number.get(row.parent_number))
            by_number[row.number] = call
            self.conversations.restore(call, request)
            self.index.add(call)
            self.conversations.add(call)

    def _restored(self, row: Any, parent: PriorCall | None) -> tuple[PriorCall, ModelRequest]:
        """The call of a row, and its request as far as it is recorded: the messages that the call added."""
        delta, messages, tools = decode_call(row.tokens), row.messages, []
        key, spoken, before, is_after_reply = canonical.context_key([]), b"", 0, False
        if messages and messages[0]["role"] == "tools":
            tools, messages = messages[0]["tools"], messages[1:]
            key = canonical.context_key(tools)
        elif parent is not None:
            is_after_reply = row.prefix_tokens > parent.input_tokens
            key, spoken, before = (
                (parent.full_key, parent.spoken_full_key, parent.num_messages + 1)
                if is_after_reply
                else (parent.prompt_key, parent.spoken_key, parent.num_messages + (parent.begun is not None))
            )
        kept: list[PriorCall] = []
        begun, begun_at = None, (b"", b"")
        if row.dialect in canonical.PREFILLING and not messages and is_after_reply and parent is not None:
            begun, begun_at = parent.turn, (parent.prompt_key, parent.spoken_key)
            if parent.begun is not None:
                begun_at = (parent.begun_key, parent.begun_spoken_key)
        for message in messages:
            turn = self.index.recognise(message, key, spoken) if message["role"] == "assistant" else None
            if turn is not None and turn.is_whole:
                kept.append(turn.call)
            is_begun = row.dialect in canonical.PREFILLING and message["role"] == "assistant"
            begun, begun_at = (message, (key, spoken)) if is_begun else (None, (b"", b""))
            key, spoken = matching.follow(message, turn, key, spoken)
        call = PriorCall(
            number=row.number,
            parent=parent,
            prefix_tokens=row.prefix_tokens,
            new_input_ids=delta.new_input_ids,
            output_ids=delta.output_ids,
            num_messages=before + len(messages) - (begun is not None),
            prompt_key=key,
            reply=Reply.from_json(row.reply).message(),
            role=row.role,
            conversation=row.conversation,
            opening_key=parent.opening_key if parent and before else canonical.opening_key(messages, tools),
            spoken_key=spoken,
            is_after_reply=is_after_reply,
            kept=tuple(kept),
            echo=next((m for m in reversed(messages) if m["role"] == "assistant"), None),
            begun=begun,
            begun_key=begun_at[0],
            begun_spoken_key=begun_at[1],
        )
        return call, ModelRequest("", messages, tools, canonical.Sampling(), False)

    # -- rendering ----------------------------------------------------------------------------------------------

    def _extended(self, request: ModelRequest, match: Match) -> tuple[int, list[int], list[Message]]:
        """Extend the parent's path: (how many of its ids are kept, new ids, messages added). Raises CannotBridge."""
        messages, parent = request.messages, match.parent
        turns = {id(messages[turn.at]): turn for turn in match.turns}

        def body(message: Message) -> list[int] | None:
            turn = turns.get(id(message))
            return None if turn is None else self._sampled(message, turn)

        if parent is None:
            prefix, new = 0, self.rendering.prompt(messages, request.tools, body)
            added = ([{"role": "tools", "tools": request.tools}] if request.tools else []) + messages
        else:
            added = messages[match.start :]
            reached = parent.path_tokens if match.after == "reply" else parent.input_tokens
            closing = self._closing(parent.output_ids.tolist()) if match.after == "reply" else []
            after = match.after
            if after == "prompt" and parent.begun is not None and not (request.continues_last and not added):
                # That prompt ends in the open turn that its client began; it stands here closed.
                closing, after = [self.rendering.close_id], "reply"
            rest = self.rendering.continuation(added, after, body)
            prefix, new = reached - rest.num_dropped, closing + rest.ids
        if request.continues_last:
            prefix, new = self._reopen(parent, prefix, new)
        return prefix, new, added

    def _rendered(self, request: ModelRequest, match: Match) -> tuple[int, list[int], list[Message]]:
        """The same, but with the whole request rendered anew: ids are kept as far as they are the parent's (§2.1)."""
        messages = list(request.messages)
        for at, call in match.recognised:
            reasoning = self.rendering.reasoning_of(call.output_ids.tolist())
            messages[at] = shaping.as_sampled(messages[at], call.reply) | (
                {"reasoning_content": reasoning} if reasoning else {}
            )
        begun = messages.pop()["content"] if request.continues_last else ""
        ids = self.rendering.whole(messages, request.tools) + self.rendering.tokenizer.encode(begun)
        path = match.parent.path(match.parent.path_tokens) if match.parent is not None else np.empty(0, np.int32)
        length = min(len(path), len(ids))
        differs = np.flatnonzero(path[:length] != np.asarray(ids[:length], np.int32))
        prefix = int(differs[0]) if len(differs) else length
        return prefix, ids[prefix:], [{"role": "tools", "tools": request.tools}, *request.messages]

    def _sampled(self, message: Message, turn: Turn) -> list[int] | None:
        """Recorded ids of a turn, with its closing token; None for the beginning of a text, whose ids are not known."""
        ids: list[int] = turn.call.output_ids.tolist()
        if turn.is_cut:
            ids = self._cut(ids, len(message.get("tool_calls", ())))
            if not ids:
                return None
        if turn.is_glued and turn.call.begun is not None:
            ids = self.rendering.tokenizer.encode(turn.call.begun["content"]) + ids
        for later in turn.continuations:
            if ids and ids[-1] in self.rendering.stop_ids:
                ids = ids[:-1]
            ids = ids + later.output_ids.tolist()
        return ids + self._closing(ids)

    def _cut(self, ids: list[int], num_calls: int) -> list[int]:
        """The ids up to the end of the tool call number `num_calls`; none if there is no such end."""
        ends = [i for i, token in enumerate(ids) if token == self.rendering.tool_end_id]
        return ids[: ends[num_calls - 1] + 1] if 0 < num_calls <= len(ends) else []

    def _closing(self, ids: list[int]) -> list[int]:
        """The token that closes a turn, if the policy sampled none."""
        return [] if ids and ids[-1] in self.rendering.stop_ids else [self.rendering.close_id]

    def _reopen(self, parent: PriorCall | None, prefix: int, ids: list[int]) -> tuple[int, list[int]]:
        """Open the last assistant turn again, to be continued: without its end and the generation prompt behind it."""
        rendering = self.rendering
        end = len(ids) - len(rendering.separator) - len(rendering.generation_prompt)
        if end > 0 and ids[end - 1] in rendering.stop_ids:
            return prefix, ids[: end - 1]
        if end == 0 and parent is not None and parent.path(prefix)[-1] in rendering.stop_ids:
            return prefix - 1, []
        return prefix, ids
