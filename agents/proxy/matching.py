"""Which recorded call a request continues (docs/algorithms.md §2.1, §2.2). Pure.

A request is hashed as a chain: the hash after each message covers that message and all before it. Every recorded call
has two hashes: one after its own messages (its prompt), and one after its reply. Of all recorded hashes that occur in
the request's chain the deepest counts. If it is one after a reply, the request continues that call. If it is one of a
prompt, the request branches off there: something else stands in place of the reply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from agents.core.codec import Int32s
from agents.proxy import canonical
from agents.proxy.canonical import Message, Tool

After = Literal["reply", "prompt"]

#: Among so many of the newest calls the one is sought that went on with a broken reply.
_RECENT = 8


@dataclass(slots=True, eq=False)
class PriorCall:
    """What later calls need of a recorded one. Its input: `prefix_tokens` ids of the parent's path, `new_input_ids`."""

    number: int
    parent: PriorCall | None
    prefix_tokens: int
    new_input_ids: Int32s
    output_ids: Int32s
    num_messages: int
    prompt_key: bytes
    reply: Message
    role: str
    conversation: str
    #: Hash of the tools and the system prompt that its request opens with.
    opening_key: bytes = b""
    #: Hash of its messages without tools and system messages.
    spoken_key: bytes = b""
    #: Whether its new messages follow the parent's reply; otherwise they stand in place of that reply.
    is_after_reply: bool = False
    #: Which of the assistant turns that it added to the parent's messages were recorded before.
    kept: tuple[PriorCall, ...] = ()
    #: The last assistant message that it added: after a broken reply, what the harness received of that reply.
    echo: Message | None = None
    #: The beginning of its reply if the client gave one (a prefill), and the hashes of the messages before that.
    begun: Message | None = None
    begun_key: bytes = b""
    begun_spoken_key: bytes = b""
    reply_key: bytes = field(init=False)
    full_key: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.reply_key = canonical.message_key(self.reply)
        self.full_key = canonical.extend_key(self.prompt_key, self.reply_key)

    @property
    def spoken_full_key(self) -> bytes:
        return canonical.extend_key(self.spoken_key, self.reply_key)

    @property
    def turn(self) -> Message:
        """The reply as one turn, together with the beginning that the client gave."""
        if self.begun is None:
            return self.reply
        return self.reply | {"content": self.begun["content"] + self.reply["content"]}

    @property
    def input_tokens(self) -> int:
        return self.prefix_tokens + len(self.new_input_ids)

    @property
    def path_tokens(self) -> int:
        return self.input_tokens + len(self.output_ids)

    def path(self, length: int) -> Int32s:
        """The first `length` ids of input + output: int32[length]."""
        return path_ids(self, length, ())

    def ancestors(self) -> Iterable[PriorCall]:
        """This call, its parent, the parent of that, and so on."""
        call: PriorCall | None = self
        while call is not None:
            yield call
            call = call.parent

    def turns(self) -> list[PriorCall]:
        """The recorded turns among its messages, newest first."""
        found: list[PriorCall] = []
        for call in self.ancestors():
            found += reversed(call.kept)
            if call.is_after_reply and call.parent is not None:
                found.append(call.parent)
        return found


@dataclass(frozen=True, slots=True)
class Turn:
    """An assistant message of a request that is a recorded reply, or only the beginning of one (`is_cut`)."""

    at: int
    call: PriorCall
    is_cut: bool = False
    #: Calls that went on with a reply that broke off, if the harness has joined their replies to it.
    continuations: tuple[PriorCall, ...] = ()
    #: Whether the message also holds, in front, the beginning that the client gave.
    is_glued: bool = False

    @property
    def is_whole(self) -> bool:
        return not self.is_cut and not self.continuations

    def after(self, key: bytes, spoken_key: bytes) -> tuple[bytes, bytes]:
        """Both hashes after this turn, which must be whole; `key` and `spoken_key` are those before it.

        A glued turn counts as the two messages that it was recorded as: the client's beginning, and the reply.
        """
        call = self.call
        if self.is_glued and call.begun is not None:
            begun = canonical.message_key(call.begun)
            key = call.prompt_key if key == call.begun_key else canonical.extend_key(key, begun)
            is_known = spoken_key == call.begun_spoken_key
            spoken_key = call.spoken_key if is_known else canonical.extend_key(spoken_key, begun)
        return canonical.extend_key(key, call.reply_key), canonical.extend_key(spoken_key, call.reply_key)


@dataclass(frozen=True, slots=True)
class Match:
    """Which call a request continues: `messages[start:]` follow the parent's reply, or stand in place of it.

    `parent` is None if the request continues no recorded call.
    """

    parent: PriorCall | None
    after: After
    start: int
    #: Hash of all messages of the request.
    prompt_key: bytes
    #: Assistant turns of the request that were recognised, whole or not.
    turns: tuple[Turn, ...]
    #: The hash after the tools and after each message; and after each message without tools and system messages.
    keys: tuple[bytes, ...] = ()
    spoken_keys: tuple[bytes, ...] = ()

    #: Whole turns: (message index, call).
    recognised: tuple[tuple[int, PriorCall], ...] = ()

    @property
    def kept(self) -> tuple[PriorCall, ...]:
        """Whole turns that the parent's own messages do not hold."""
        return tuple(call for at, call in self.recognised if at >= self.start)


class CallIndex:
    """The recorded calls of one execution attempt."""

    def __init__(self) -> None:
        self.calls: list[PriorCall] = []
        self._after_reply: dict[bytes, PriorCall] = {}
        self._at_prompt: dict[bytes, list[PriorCall]] = {}
        self._by_tool_call: dict[str, PriorCall] = {}
        self._by_reply: dict[bytes, list[PriorCall]] = {}
        self._at_spoken: dict[bytes, list[PriorCall]] = {}
        self._at_begun: dict[bytes, list[PriorCall]] = {}

    def add(self, call: PriorCall) -> None:
        self.calls.append(call)
        self._after_reply[call.full_key] = call
        self._at_prompt.setdefault(call.prompt_key, []).append(call)
        self._at_spoken.setdefault(call.spoken_key, []).append(call)
        self._by_reply.setdefault(call.reply_key, []).append(call)
        if call.begun is not None:
            self._by_reply.setdefault(canonical.message_key(call.turn), []).append(call)
            for key in {call.begun_key, call.begun_spoken_key}:
                self._at_begun.setdefault(key, []).append(call)
        self._by_tool_call.update((id, call) for id in canonical.tool_call_ids(call.reply) if id)

    def recognise(
        self,
        message: Message,
        prompt_key: bytes = b"",
        spoken_key: bytes = b"",
        at: int = -1,
        before: PriorCall | None = None,
    ) -> Turn | None:
        """The recorded reply that this assistant message is, or a part of it is; None for a text of the harness's own.

        `prompt_key` and `spoken_key` are the hashes of the messages before it. The first that fits, in this order:

        1. the reply of a call at this prompt, or else at the same messages under other tools or system prompts;
        2. the same joined to the beginning that the client gave;
        3. the reply with the same tool-call ids: harnesses reorder, convert and complete the arguments, and may leave
           out the text beside the calls, but an edited text makes it another turn;
        4. several replies joined into one message: one that broke off, and those that went on with it;
        5. the beginning of a reply whose end never reached the harness;
        6. a reply of the same content, if possible the first that is newer than the turn `before`.
        """
        here = self._at_prompt.get(prompt_key) or self._at_spoken.get(spoken_key, [])
        for call in reversed(here):
            if is_echo(message, call.reply):
                return Turn(at, call)
        begun = self._at_begun.get(prompt_key) or self._at_begun.get(spoken_key, [])
        for call in reversed(begun):
            if is_echo(message, call.turn):
                return Turn(at, call, is_glued=True)
        ids = canonical.tool_call_ids(message)
        linked = self._by_tool_call.get(ids[0]) if ids else None
        if linked is not None and is_echo(message, linked.reply):
            return Turn(at, linked)
        if linked is not None and is_echo(message, linked.turn):
            return Turn(at, linked, is_glued=True)
        for call in reversed(here):
            if found := self._continued(message, call, linked):
                return Turn(at, call, continuations=found)
        for call in (*reversed(here), *([linked] if linked is not None else [])):
            if is_beginning(message, call.reply):
                return Turn(at, call, is_cut=True)
        for call in reversed(begun):
            if call.begun is not None and _is_longer(message, call.begun) and is_beginning(message, call.turn):
                return Turn(at, call, is_cut=True, is_glued=True)
        key = canonical.message_key(message)
        alike = self._by_reply.get(key, [])
        later = [call for call in alike if before is not None and call.number > before.number]
        found_alike = next(iter(later), alike[-1] if alike else None)
        return None if found_alike is None else Turn(at, found_alike, is_glued=found_alike.reply_key != key)

    def match(self, messages: list[Message], tools: list[Tool]) -> Match:
        keys, spoken = [canonical.context_key(tools)], [b""]
        turns: list[Turn] = []
        for i, message in enumerate(messages):
            turn = None
            if message["role"] == "assistant":
                turn = self.recognise(message, keys[-1], spoken[-1], i, turns[-1].call if turns else None)
            if turn is not None:
                turns.append(turn)
            key, said = follow(message, turn, keys[-1], spoken[-1])
            keys.append(key)
            spoken.append(said)
        found: tuple[PriorCall | None, After, int] = (None, "prompt", 0)
        for i in range(len(messages), 0, -1):
            if (call := self._after_reply.get(keys[i])) is not None:
                linked = next((t.call for t in turns if t.at == i - 1 and t.call.full_key == keys[i]), call)
                found = (linked, "reply", i)
                break
            if calls := self._at_prompt.get(keys[i]):
                found = (self._best_at(calls, turns, i), "prompt", i)
                break
        parent, after, start = found
        whole = tuple((turn.at, turn.call) for turn in turns if turn.is_whole)
        return Match(parent, after, start, keys[-1], tuple(turns), tuple(keys), tuple(spoken[1:]), whole)

    def _best_at(self, calls: list[PriorCall], turns: list[Turn], start: int) -> PriorCall:
        """Of the calls at one prompt: the one whose reply was recognised in the next message, else the newest."""
        return next((t.call for t in turns if t.at == start and t.call in calls), calls[-1])

    def _continued(self, message: Message, call: PriorCall, linked: PriorCall | None) -> tuple[PriorCall, ...]:
        """The calls that went on with `call`'s broken reply, if this message is all their replies joined."""
        echoed = _squeezed(message["content"])
        for last in [linked] if linked is not None else self.calls[-_RECENT:]:
            if canonical.tool_call_ids(message) != canonical.tool_call_ids(last.reply):
                continue
            parts: list[PriorCall] = []
            text = ""
            for later in last.ancestors():
                if later.number <= call.number:
                    break
                begun = later.echo if later.echo is not None else call.reply
                parts.append(later)
                text = _squeezed(later.reply["content"]) + text
                if echoed == _squeezed(begun["content"]) + text and later.parent in (call, call.parent):
                    return tuple(reversed(parts))
        return ()


def follow(message: Message, turn: Turn | None, key: bytes, spoken_key: bytes) -> tuple[bytes, bytes]:
    """Both hashes after a message, from those before it; `turn` is the recorded turn that the message is, if any."""
    if turn is not None and turn.is_whole:
        return turn.after(key, spoken_key)
    link = canonical.message_key(message)
    is_system = message["role"] == "system"
    return canonical.extend_key(key, link), spoken_key if is_system else canonical.extend_key(spoken_key, link)


def is_echo(message: Message, reply: Message) -> bool:
    """Whether an assistant message is this reply, allowing for what harnesses change when they send it back."""
    ids, given = canonical.tool_call_ids(message), canonical.tool_call_ids(reply)
    if len(ids) != len(given):
        return False
    is_linked = bool(ids) and ids == given and all(ids)
    if is_linked and not message["content"].strip():
        return True
    if not _is_same_text(message["content"], reply["content"]):
        return False
    if is_linked:
        return True
    echoed, sampled = message.get("tool_calls", ()), reply.get("tool_calls", ())
    return all(_is_same_use(e["function"], s["function"]) for e, s in zip(echoed, sampled, strict=True))


def is_beginning(message: Message, reply: Message) -> bool:
    """Whether the message is only the beginning of this reply: the end never reached the harness."""
    ids, given = canonical.tool_call_ids(message), canonical.tool_call_ids(reply)
    if ids != given[: len(ids)]:
        return False
    text, said = _squeezed(message["content"]), _squeezed(reply["content"])
    if len(ids) < len(given):
        return bool(ids or text) and said.startswith(text) and (text == said or not ids)
    return not ids and bool(text) and said.startswith(text) and text != said


def _is_longer(message: Message, other: Message) -> bool:
    """Whether a message says more than another."""
    return len(_squeezed(message["content"])) > len(_squeezed(other["content"]))


def _is_same_use(echoed: dict[str, Any], sampled: dict[str, Any]) -> bool:
    """Whether both call the same tool with the same arguments.

    The harness may have filled in defaults, and may write a plain value as text or the other way round.
    """
    if echoed["name"] != sampled["name"]:
        return False
    given, said = echoed["arguments"], sampled["arguments"]
    if not isinstance(given, dict) or not isinstance(said, dict):
        return bool(given == said)
    return all(name in given and _plain(given[name]) == _plain(value) for name, value in said.items())


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, str | int | float | bool) else value


def _is_same_text(echoed: str, sampled: str) -> bool:
    return echoed == sampled or echoed.strip() == sampled.strip() or _squeezed(echoed) == _squeezed(sampled)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def path_ids(parent: PriorCall | None, prefix_tokens: int, new_ids: Iterable[Int32s]) -> Int32s:
    """The first `prefix_tokens` ids of the parent's path, then `new_ids`: int32[prefix_tokens + len(new_ids)].

    Each call holds only the ids that it added, so the pieces are collected back to front, from parent to parent.
    """
    pieces: list[Int32s] = list(new_ids)[::-1]
    wanted, call = prefix_tokens, parent
    while call is not None and wanted:
        own = np.concatenate([call.new_input_ids, call.output_ids])[: max(0, wanted - call.prefix_tokens)]
        pieces.append(own)
        wanted, call = min(wanted, call.prefix_tokens), call.parent
    return np.concatenate(pieces[::-1]) if pieces else np.empty(0, np.int32)
