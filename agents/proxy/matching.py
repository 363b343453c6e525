"""Which recorded call a request continues (docs/algorithms.md §2.1, §2.2). Pure.

A request is a chain of hashes, one link per message. A recorded call sits at two links: at the end of its own messages
(its prompt), and one message later, after its reply. The request continues the call whose link after the reply lies
deepest on its chain; failing that, or where only that reaches deeper, it leaves from a recorded prompt.
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

#: How far back the answer to a broken stream is looked for.
_RECENT = 8


@dataclass(slots=True, eq=False)
class PriorCall:
    """A call as later ones build on it. Its input is the parent's path cut at `prefix_tokens`, then `new_input_ids`."""

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
    #: What its conversation opens with: tools and system prompt.
    opening_key: bytes = b""
    #: Hash of its messages without system ones and without its context.
    spoken_key: bytes = b""
    #: Its messages go on after the parent's reply, not in place of it.
    is_after_reply: bool = False
    #: Assistant turns that it added to the parent's messages and that the policy had sampled.
    kept: tuple[PriorCall, ...] = ()
    #: The last assistant message of its prompt, unless the policy sampled it exactly so.
    echo: Message | None = None
    #: The beginning of the reply that its client gave, and the hashes of what stands before it.
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
        """The reply with what its client began it with, as one turn."""
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
        """This call and those that it builds on, nearest first."""
        call: PriorCall | None = self
        while call is not None:
            yield call
            call = call.parent

    def turns(self) -> list[PriorCall]:
        """The sampled turns that stand in its messages, newest first."""
        found: list[PriorCall] = []
        for call in self.ancestors():
            found += reversed(call.kept)
            if call.is_after_reply and call.parent is not None:
                found.append(call.parent)
        return found


@dataclass(frozen=True, slots=True)
class Turn:
    """An assistant message of a request that the policy sampled: as a whole, or only its beginning (`is_cut`)."""

    at: int
    call: PriorCall
    is_cut: bool = False
    #: Answers that went on with a broken one, which the harness appended to it.
    continuations: tuple[PriorCall, ...] = ()
    #: The message also holds the beginning that the client gave the reply.
    is_glued: bool = False

    @property
    def is_whole(self) -> bool:
        return not self.is_cut and not self.continuations

    def after(self, key: bytes, spoken_key: bytes) -> tuple[bytes, bytes]:
        """The chains' links after this whole turn: those after the call's reply, wherever its prompt ends."""
        call = self.call
        if self.is_glued and call.begun is not None:
            begun = canonical.message_key(call.begun)
            key = call.prompt_key if key == call.begun_key else canonical.extend_key(key, begun)
            is_known = spoken_key == call.begun_spoken_key
            spoken_key = call.spoken_key if is_known else canonical.extend_key(spoken_key, begun)
        return canonical.extend_key(key, call.reply_key), canonical.extend_key(spoken_key, call.reply_key)


@dataclass(frozen=True, slots=True)
class Match:
    """`messages[start:]` follow `parent`, after its reply or in place of it. No parent: nothing fits."""

    parent: PriorCall | None
    after: After
    start: int
    #: Hash of the request's whole chain: the prompt key of the call that answers it.
    prompt_key: bytes
    #: Assistant turns of the request that were recognised, whole or not; `recognised` has the whole ones.
    turns: tuple[Turn, ...]
    #: The chain after the context and after each message, and one without context and system messages.
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
        """The call that sampled this assistant turn: by tool-call ids, else by content.

        Calls at this prompt come first, then those before which the same was said in another context, then others after
        the turn `before`. Tool-call ids win over arguments, since echoes come back re-ordered, coerced and filled with
        defaults; a text that the echo leaves out beside its calls changes nothing either. An edited text is another
        turn. A reply that its client began comes back as a turn of its own, or glued to that beginning.
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
                # Of several calls with this chain, the one whose turn was recognised there.
                recognised = next((t.call for t in turns if t.at == i - 1 and t.call.full_key == keys[i]), call)
                found = (recognised, "reply", i)
                break
            if calls := self._at_prompt.get(keys[i]):
                found = (self._best_at(calls, turns, i), "prompt", i)
                break
        parent, after, start = found
        whole = tuple((turn.at, turn.call) for turn in turns if turn.is_whole)
        return Match(parent, after, start, keys[-1], tuple(turns), tuple(keys), tuple(spoken[1:]), whole)

    def _best_at(self, calls: list[PriorCall], turns: list[Turn], start: int) -> PriorCall:
        """Of the calls at one prompt, the one whose reply the next message begins with or goes on from."""
        return next((t.call for t in turns if t.at == start and t.call in calls), calls[-1])

    def _continued(self, message: Message, call: PriorCall, linked: PriorCall | None) -> tuple[PriorCall, ...]:
        """The calls whose replies stand in this message after `call`'s: they went on with a broken stream."""
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
    """The chains' links after a message, which may be a turn that the policy sampled."""
    if turn is not None and turn.is_whole:
        return turn.after(key, spoken_key)
    link = canonical.message_key(message)
    is_system = message["role"] == "system"
    return canonical.extend_key(key, link), spoken_key if is_system else canonical.extend_key(spoken_key, link)


def is_echo(message: Message, reply: Message) -> bool:
    """Whether an assistant message of a request is this reply, as harnesses give replies back."""
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
    """Whether the message is a reply whose end never reached the harness."""
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
    """The same call of a tool, whatever defaults the harness filled in and however it writes plain values."""
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
    """A full input: int32[prefix_tokens + len(new_ids)], assembled back to front along the parents."""
    pieces: list[Int32s] = list(new_ids)[::-1]
    wanted, call = prefix_tokens, parent
    while call is not None and wanted:
        own = np.concatenate([call.new_input_ids, call.output_ids])[: max(0, wanted - call.prefix_tokens)]
        pieces.append(own)
        wanted, call = min(wanted, call.prefix_tokens), call.parent
    return np.concatenate(pieces[::-1]) if pieces else np.empty(0, np.int32)
