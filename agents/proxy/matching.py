"""Which recorded call a request continues, and why where it continues none (algorithms.md §2.1–§2.3). Pure.

A request is a chain of hashes, one link per message. A recorded call sits at two links: at the end of its own messages
(its prompt), and one message later, after its reply. The request continues the call whose link after the reply lies
deepest on its chain; failing that, or where only that reaches deeper, it leaves from a recorded prompt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from agents.core.codec import Int32s
from agents.proxy import canonical
from agents.proxy.canonical import Message, Tool

After = Literal["reply", "prompt"]

#: Reasons for which a request may leave recorded tokens although it keeps an assistant turn of its conversation.
TRUE_BRANCHES = frozenset({"compaction", "fork", "resume", "dropped-answer", "kept-round"})


@dataclass(slots=True, eq=False)
class RecordedCall:
    """A call as later ones build on it. Its input is the parent's path cut at `prefix_tokens`, then `new_input_ids`."""

    number: int
    parent: RecordedCall | None
    prefix_tokens: int
    new_input_ids: Int32s
    output_ids: Int32s
    num_messages: int
    prompt_key: bytes
    reply: Message
    role: str
    conversation: str
    #: What its conversation opens with: tools and system prompt.
    opening_key: bytes = b""
    reply_key: bytes = field(init=False)
    full_key: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.reply_key = canonical.message_key(self.reply)
        self.full_key = canonical.extend_key(self.prompt_key, self.reply_key)

    @property
    def input_tokens(self) -> int:
        return self.prefix_tokens + len(self.new_input_ids)

    @property
    def path_tokens(self) -> int:
        return self.input_tokens + len(self.output_ids)

    def path(self, length: int) -> Int32s:
        """The first `length` ids of input + output: int32[length]."""
        return path_ids(self, length, ())

    def ancestors(self) -> Iterable[RecordedCall]:
        """This call and those that it builds on, nearest first."""
        call: RecordedCall | None = self
        while call is not None:
            yield call
            call = call.parent


@dataclass(frozen=True, slots=True)
class Match:
    """`messages[start:]` follow `parent`, after its reply or in place of it. No parent: nothing fits."""

    parent: RecordedCall | None
    after: After
    start: int
    #: Hash of the request's whole chain: the prompt key of the call that answers it.
    prompt_key: bytes
    #: Assistant turns of the request that were recognised: (message index, call).
    recognised: tuple[tuple[int, RecordedCall], ...]


class CallIndex:
    """The recorded calls of one execution attempt."""

    def __init__(self) -> None:
        self.calls: list[RecordedCall] = []
        self._after_reply: dict[bytes, RecordedCall] = {}
        self._at_prompt: dict[bytes, RecordedCall] = {}
        self._by_tool_call: dict[str, RecordedCall] = {}
        self._by_reply: dict[bytes, RecordedCall] = {}
        self.last_of: dict[str, RecordedCall] = {}
        self.by_opening: dict[bytes, RecordedCall] = {}

    def add(self, call: RecordedCall) -> None:
        self.calls.append(call)
        self._after_reply[call.full_key] = call
        self._at_prompt[call.prompt_key] = call
        self._by_reply[call.reply_key] = call
        self._by_tool_call.update((id, call) for id in canonical.tool_call_ids(call.reply))
        self.last_of[call.conversation] = call
        self.by_opening.setdefault(call.opening_key, call)

    def recognise(self, message: Message) -> RecordedCall | None:
        """The call that sampled this assistant turn: by its tool-call ids, else by what it says.

        Tool-call ids win over arguments, since echoes come back re-ordered, coerced and filled with defaults; an edited
        text is another turn.
        """
        ids = canonical.tool_call_ids(message)
        linked = self._by_tool_call.get(ids[0]) if ids else None
        if (
            linked is not None
            and ids == canonical.tool_call_ids(linked.reply)
            and linked.reply["content"].strip() == message["content"].strip()
        ):
            return linked
        return self._by_reply.get(canonical.message_key(message))

    def match(self, messages: list[Message], tools: list[Tool]) -> Match:
        keys = [canonical.context_key(tools)]
        recognised: list[tuple[int, RecordedCall]] = []
        for i, message in enumerate(messages):
            call = self.recognise(message) if message["role"] == "assistant" else None
            if call is not None:
                recognised.append((i, call))
            keys.append(canonical.extend_key(keys[-1], call.reply_key if call else canonical.message_key(message)))
        found: tuple[RecordedCall | None, After, int] = (None, "prompt", 0)
        for i in range(len(messages), 0, -1):
            if (call := self._after_reply.get(keys[i])) is not None:
                linked = next((c for at, c in recognised if at == i - 1 and c.full_key == keys[i]), call)
                found = (linked, "reply", i)
                break
            if (call := self._at_prompt.get(keys[i])) is not None:
                found = (call, "prompt", i)
                break
        parent, after, start = found
        return Match(parent, after, start, keys[-1], tuple(recognised))


def branch(match: Match, messages: list[Message], conversation: str, role: str, index: CallIndex) -> tuple[str, bool]:
    """Why the request does not simply continue its conversation ("" when it does), and whether that is a false fork.

    A false fork keeps an assistant turn of its conversation but leaves the recorded tokens before that turn's end
    (algorithms.md §2.3).
    """
    last = index.last_of.get(conversation)
    parent = match.parent
    if last is None:
        reason = "" if not index.calls else ("fork" if match.after == "reply" and parent else "new-conversation")
    elif parent is last and match.after == "reply":
        return "", False
    elif parent is not None and match.after == "prompt" and match.start == len(messages):
        reason = "resample"
    elif parent is not None and match.after == "prompt":
        reason = "edited-reply" if messages[match.start]["role"] == "assistant" else "dropped-answer"
    elif parent is not None and parent.conversation != conversation:
        reason = "fork"
    elif parent is not None:
        reason = "compaction" if role.endswith("-summary") else "rewind"
    elif last.role.endswith("-summary"):
        reason = "kept-round" if match.recognised else "compaction"
    else:
        reason = "restart" if not match.recognised else "unmatched"
    return reason, reason not in TRUE_BRANCHES and _leaves_kept_turn(match, conversation)


def _leaves_kept_turn(match: Match, conversation: str) -> bool:
    held = set(match.parent.ancestors()) if match.parent else set()
    return any(
        at >= match.start and call.conversation == conversation and call not in held for at, call in match.recognised
    )


def path_ids(parent: RecordedCall | None, prefix_tokens: int, new_ids: Iterable[Int32s]) -> Int32s:
    """A full input: int32[prefix_tokens + len(new_ids)], assembled back to front along the parents."""
    pieces: list[Int32s] = list(new_ids)[::-1]
    wanted, call = prefix_tokens, parent
    while call is not None and wanted:
        own = np.concatenate([call.new_input_ids, call.output_ids])[: max(0, wanted - call.prefix_tokens)]
        pieces.append(own)
        wanted, call = min(wanted, call.prefix_tokens), call.parent
    return np.concatenate(pieces[::-1]) if pieces else np.empty(0, np.int32)
