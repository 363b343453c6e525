"""Messages to token ids, the one way that recording, warm starts and replays share (algorithms.md §2).

A conversation is rendered turn by turn: the opening up to the first generation prompt, then for each assistant turn
its ids followed by the turns of the others and the next generation prompt. So a request's ids always begin with those
of the calls that it continues, whatever the chat template would do to history when it is rendered anew. The pieces
come from the `renderers` package. Thinking is never cut from history and never pre-filled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from renderers import config_from_name, create_renderer

from agents.proxy.tokenizer import PolicyTokenizer

Message = dict[str, Any]
Tool = dict[str, Any]
Body = Callable[[Message], Sequence[int]]

#: `model_type` of a policy's config.json -> name of its renderer.
RENDERERS = {"qwen3": "qwen3", "qwen3_moe": "qwen3", "qwen2": "qwen3", "llama": "llama-3"}
BUNDLED_POLICY = Path(__file__).resolve().parents[2] / "trainers" / "policy" / "quickstart"


class BadPolicyFolder(ValueError):
    """The folder is no policy that can be rendered; the message says what is missing."""


class CannotBridge(Exception):
    """The renderer cannot say what follows a recorded reply: render the whole request (algorithms.md §2.1)."""


@dataclass(frozen=True)
class Continuation:
    """What follows a recorded context: drop its last `num_dropped` ids, then append `ids`."""

    num_dropped: int
    ids: list[int]


@dataclass(frozen=True)
class Rendered:
    """A whole conversation; `sampled[i]`: the policy would have sampled ids[i]."""

    ids: list[int]
    sampled: list[bool]


class Rendering:
    """Renderer and tokenizer of one policy folder. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        settings = _settings(folder)
        name = _renderer_name(folder, settings)
        #: Longest context that the policy was made for; None when its folder does not say.
        self.max_tokens: int | None = settings.get("max_position_embeddings")
        self.tokenizer = PolicyTokenizer(folder)
        self.renderer = create_renderer(self.tokenizer, type(config_from_name(name))(thinking_retention="all"))
        self.stop_ids: tuple[int, ...] = tuple(self.renderer.get_stop_token_ids())
        self.close_id = self.stop_ids[0]
        probe: list[Message] = [{"role": "user", "content": "."}]
        closed = self.renderer.render_ids(probe)
        opened = self.renderer.render_ids(probe, add_generation_prompt=True)
        self.generation_prompt: list[int] = opened[len(closed) :] if opened[: len(closed)] == closed else []
        #: Ids of the template between a reply's closing token and the next turn; None: it cannot be bridged.
        self._separator = self._probe_separator()
        self.tool_start_id, self.tool_end_id = (self.token_id(t) for t in ("<tool_call>", "</tool_call>"))
        self.think_start_id, self.think_end_id = (self.token_id(t) for t in ("<think>", "</think>"))

    @property
    def separator(self) -> list[int]:
        """Ids of the template between a reply's closing token and the next turn. Raises CannotBridge."""
        if self._separator is None:
            raise CannotBridge
        return self._separator

    def whole(self, messages: list[Message], tools: list[Tool] | None) -> list[int]:
        """Ids of a whole request as the template renders it, ending in the generation prompt."""
        ids: list[int] = self.renderer.render_ids(messages, tools=tools or None, add_generation_prompt=True)
        return ids

    def reasoning_of(self, output_ids: list[int]) -> str:
        """The reasoning of a sampled reply."""
        return self.renderer.parse_response(output_ids).reasoning_content or ""

    def token_id(self, token: str) -> int:
        """Id of a token of its own, -1 when the vocabulary has none."""
        found = self.tokenizer.backend.token_to_id(token)
        return -1 if found is None else int(found)

    def prompt(self, messages: list[Message], tools: list[Tool] | None, body: Body | None = None) -> list[int]:
        """Ids of a whole request, ending in the generation prompt. `messages` open with another role than assistant."""
        opening = _first_assistant(messages)
        if not opening:
            raise ValueError("a conversation cannot open with an assistant message")
        ids = self.whole(messages[:opening], tools)
        rest = self.continuation(messages[opening:], "prompt", body)
        return ids[: len(ids) - rest.num_dropped] + rest.ids

    def continuation(
        self, messages: list[Message], after: Literal["reply", "prompt"], body: Body | None = None
    ) -> Continuation:
        """What `messages` add to a context that ends in a closed reply, or in a generation prompt.

        `body` gives the ids of an assistant turn that stands in `messages` (recorded ones, where there are any),
        closing token included; without it the turn is tokenised. The result ends in a generation prompt.
        """
        ids: list[int] = []
        num_dropped = 0
        for turns in _turns(messages):
            if turns[0]["role"] == "assistant":
                if after == "reply":
                    ids += self.separator + self.generation_prompt
                ids += (body or self.assistant)(turns[0])
                after = "reply"
                continue
            added = self._after_reply(turns)
            if after == "prompt":
                added = added[len(self.separator) :]
                num_dropped = len(self.generation_prompt) if not ids else num_dropped
                ids = ids[: -len(self.generation_prompt)] if ids else ids
            ids += added
            after = "prompt"
        if after == "reply":
            ids += self.separator + self.generation_prompt
        return Continuation(num_dropped, ids)

    def assistant(self, message: Message) -> list[int]:
        """Ids of an assistant turn as the policy would sample them, closing token included."""
        turns = [{"role": "user", "content": "."}, message, {"role": "user", "content": "."}]
        rendered = self.renderer.render(turns)
        return [
            i
            for i, at, sampled in zip(rendered.token_ids, rendered.message_indices, rendered.sampled_mask, strict=True)
            if at == 1 and sampled
        ]

    def conversation(self, messages: list[Message], tools: list[Tool] | None = None) -> Rendered:
        """A whole conversation; every assistant turn is marked as sampled, its closing token included.

        Ends at a closing token when the last message is the assistant's, else in the generation prompt.
        """
        first = _first_assistant(messages)
        ids = self.prompt(messages[:first], tools)
        sampled = [False] * len(ids)
        after = "prompt"
        for turns in _turns(messages[first:]):
            is_reply = turns[0]["role"] == "assistant"
            if is_reply and after == "reply":
                ids += self.separator + self.generation_prompt
            sampled += [False] * (len(ids) - len(sampled))
            ids += self.assistant(turns[0]) if is_reply else self._after_reply(turns)
            sampled += [is_reply] * (len(ids) - len(sampled))
            after = "reply" if is_reply else "prompt"
        return Rendered(ids, sampled)

    def _after_reply(self, messages: list[Message]) -> list[int]:
        """Ids after a reply's closing token: separator, these turns (none of them the assistant's), next prompt.

        Raises CannotBridge.
        """
        bridged = self.renderer.bridge_to_next_turn([self.close_id], [self.close_id], messages)
        if bridged is None or bridged.token_ids[:2] != [self.close_id, self.close_id]:
            raise CannotBridge
        ids: list[int] = bridged.token_ids[2:]
        return ids

    def _probe_separator(self) -> list[int] | None:
        """None unless a turn after a reply is rendered as at the beginning, after ids that are always the same.

        Nor if a turn begins with a token that also ends replies: a sampled one would stand there twice.
        """
        found: list[list[int]] = []
        for text in (".", ". ."):
            turns: list[Message] = [{"role": "user", "content": text}]
            opened = self.whole(turns, None)
            try:
                after = self._after_reply(turns)
            except CannotBridge:
                return None
            alike = zip(after[::-1], opened[::-1], strict=False)
            shared = next((n for n, (a, b) in enumerate(alike) if a != b), len(opened))
            turn = after[len(after) - shared :]
            if not self.generation_prompt or not turn or turn[0] in self.stop_ids:
                return None
            found.append(after[: len(after) - shared])
        return found[0] if found[0] == found[1] else None


@lru_cache(maxsize=8)
def rendering(folder: Path) -> Rendering:
    """The process's one Rendering of a policy folder."""
    return Rendering(folder)


def _first_assistant(messages: list[Message]) -> int:
    return next((i for i, m in enumerate(messages) if m["role"] == "assistant"), len(messages))


def _turns(messages: list[Message]) -> Iterator[list[Message]]:
    """Assistant messages one by one, the others in runs."""
    run: list[Message] = []
    for message in messages:
        if message["role"] != "assistant":
            run.append(message)
            continue
        if run:
            yield run
            run = []
        yield [message]
    if run:
        yield run


def _settings(folder: Path) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise BadPolicyFolder(f"{folder} is no policy folder: {error}") from error
    return settings


def _renderer_name(folder: Path, settings: dict[str, Any]) -> str:
    kind = settings.get("model_type")
    if kind not in RENDERERS:
        raise BadPolicyFolder(f"{folder}: no renderer for model_type {kind!r}; known: {', '.join(sorted(RENDERERS))}")
    return RENDERERS[kind]
