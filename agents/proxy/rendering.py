"""Messages to token ids, the one way that recording, warm starts and replays share (docs/algorithms.md §2).

A conversation is rendered turn by turn: the opening up to the first generation prompt, then for each assistant turn
its ids followed by the turns of the others and the next generation prompt. So a request's ids always begin with those
of the calls that it continues, whatever the chat template would do to history when it is rendered anew. The pieces
come from the `renderers` package. Thinking is never cut from history and never pre-filled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from jinja2 import TemplateError
from renderers import config_from_name, create_renderer
from renderers.configs import DefaultRendererConfig

from agents.proxy import probing, shaping
from agents.proxy.budget import TooLong
from agents.proxy.canonical import BadRequest
from agents.proxy.families import TEMPLATE, BadPolicyFolder, Family, chat_template, family, settings
from agents.proxy.tokenizer import PolicyTokenizer

Message = dict[str, Any]
Tool = dict[str, Any]
#: Recorded ids of an assistant turn, closing token included; None where there are none.
Body = Callable[[Message], Sequence[int] | None]

BUNDLED_POLICY = Path(__file__).resolve().parents[2] / "trainers" / "policy" / "quickstart"


class CannotBridge(Exception):
    """The renderer cannot say what follows a recorded reply: render the whole request (docs/algorithms.md §2.1)."""


class CannotSay(BadRequest):
    """The policy's chat template has failed over a request, or refuses it; the text says how, in its own words."""


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
        config = settings(folder, "config.json")
        found = family(folder, config)
        text = config.get("text_config")
        longest = (text if isinstance(text, dict) else config).get("max_position_embeddings")
        #: Longest context that the policy was made for; None when its folder does not say.
        self.max_tokens: int | None = longest if isinstance(longest, int) else None
        self.tokenizer = PolicyTokenizer(folder)
        try:
            self.renderer = create_renderer(self.tokenizer, _config(found.renderer, self))
        except Exception as error:  # whatever a renderer misses in this vocabulary
            if not chat_template(folder):
                raise BadPolicyFolder(f"{folder}: {found.renderer} cannot render it: {error}") from error
            found = Family(TEMPLATE, found.tool_marks)
            self.renderer = create_renderer(self.tokenizer, _config(TEMPLATE, self))
        self.family = found.renderer
        self.stop_ids: tuple[int, ...] = tuple(self.renderer.get_stop_token_ids())
        self.close_id = self.stop_ids[0]
        #: What the template can say; the rest of a request is said in another way.
        self.shape = found.shape or probing.shape_of(self._text)
        probe: list[Message] = [{"role": "user", "content": "."}]
        try:
            closed = self.renderer.render_ids(probe)
            opened = self.renderer.render_ids(probe, add_generation_prompt=True)
        except Exception as error:  # a template fails in whatever way it likes
            raise BadPolicyFolder(f"{folder}: its chat template cannot say one message: {_why(error)}") from error
        self.generation_prompt: list[int] = opened[len(closed) :] if opened[: len(closed)] == closed else []
        self._opening = closed
        #: Ids of the template between a reply's closing token and the next turn; None: it cannot be bridged.
        self._separator = self._probe_separator()
        marks = found.tool_marks or ("", "")
        self.tool_start_id, self.tool_end_id = (self.token_id(t) for t in marks)
        self.think_start_id, self.think_end_id = (self.token_id(t) for t in ("<think>", "</think>"))
        #: Thoughts and tool calls can be distinguished from text token by token.
        self.is_marked = found.tool_marks is not None
        #: The generation prompt has opened a thought that the reply goes on with.
        self.opens_thinking = _last(self.generation_prompt, self.think_start_id) > _last(
            self.generation_prompt, self.think_end_id
        )

    @property
    def extends(self) -> bool:
        """A later call extends the recorded ids of an earlier one; else it is rendered whole."""
        return self._separator is not None

    @property
    def separator(self) -> list[int]:
        """Ids of the template between a reply's closing token and the next turn. Raises CannotBridge."""
        if self._separator is None:
            raise CannotBridge
        return self._separator

    def whole(self, messages: list[Message], tools: list[Tool] | None) -> list[int]:
        """Ids of a whole request as the template renders it, ending in the generation prompt. Raises CannotSay."""
        with _in_its_own_words():
            said = shaping.conversation(messages, self.shape, tools)
            offered = shaping.tools(tools or [], self.shape) or None
            ids: list[int] = self.renderer.render_ids(said, tools=offered, add_generation_prompt=True)
        return ids

    def reasoning_of(self, output_ids: list[int]) -> str:
        """The reasoning of a sampled reply, "" where its renderer fails over what was sampled."""
        try:
            return self.renderer.parse_response(output_ids).reasoning_content or ""
        except Exception:  # numbers that Python will not read, values nested too deep
            return ""

    def token_id(self, token: str) -> int:
        """Id of a token of its own, -1 when the vocabulary has none."""
        found = self.tokenizer.backend.token_to_id(token)
        return -1 if found is None else int(found)

    def prompt(self, messages: list[Message], tools: list[Tool] | None, body: Body | None = None) -> list[int]:
        """Ids of a whole request, ending in the generation prompt. Raises CannotBridge, CannotSay."""
        if not messages:
            raise CannotSay("the request holds no messages")
        opening = _first_assistant(messages)
        ids = self.whole(messages[:opening], tools)
        rest = self.continuation(messages[opening:], "prompt", body)
        return ids[: len(ids) - rest.num_dropped] + rest.ids

    def continuation(
        self, messages: list[Message], after: Literal["reply", "prompt"], body: Body | None = None
    ) -> Continuation:
        """What `messages` add to a context that ends in a closed reply, or in a generation prompt.

        `body` gives the recorded ids of an assistant turn that stands in `messages`, where there are any; other turns
        are tokenised as the template has them. The result ends in a generation prompt.
        """
        ids: list[int] = []
        num_dropped = 0
        for turns in _turns(messages):
            if turns[0]["role"] == "assistant":
                recorded = body(turns[0]) if body is not None else None
                turn = [*self.generation_prompt, *recorded] if recorded is not None else self.turn(turns[0])
                if after == "reply":
                    ids += self.separator + turn
                else:
                    # The generation prompt stands already; a turn that begins otherwise takes its place.
                    kept = _shared(turn, self.generation_prompt)
                    surplus = len(self.generation_prompt) - kept
                    num_dropped = surplus if not ids else num_dropped
                    ids = (ids[: len(ids) - surplus] if ids else ids) + turn[kept:]
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
        """Ids of an assistant turn as the policy would sample them, closing token included. Raises CannotSay.

        A turn that the family can only say as several stands there as these, with what is between them.
        """
        rendered, last = self._rendered_turn(message)
        ids: list[int] = rendered.token_ids
        own = [i for i, at in enumerate(rendered.message_indices) if 1 <= at <= last]
        if mask := rendered.sampled_mask:
            sampled = [i for i in own if mask[i]]
            return [ids[i] for i in sampled] if last == 1 else ids[sampled[0] : sampled[-1] + 1]
        # This renderer does not say which tokens are the policy's: all after the generation prompt, up to the end.
        turn = [ids[i] for i in own]
        end = max((i for i, token in enumerate(turn) if token in self.stop_ids), default=len(turn) - 1)
        return turn[_shared(turn, self.generation_prompt) : end + 1]

    def turn(self, message: Message) -> list[int]:
        """Ids of an assistant turn as the template has it in a history, header and closing token included.

        Raises CannotBridge, CannotSay.
        """
        if not self.generation_prompt:
            raise CannotBridge
        rendered, last = self._rendered_turn(message)
        ids: list[int] = rendered.token_ids
        end = max(
            (i for i, at in enumerate(rendered.message_indices) if at == last and ids[i] in self.stop_ids), default=0
        )
        if not end or ids[: len(self._opening)] != self._opening:
            raise CannotBridge
        return ids[len(self._opening) : end + 1]

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

        Raises CannotBridge, CannotSay.
        """
        said = shaping.later(messages, self.shape, is_called=True)
        with _in_its_own_words():
            bridged = self.renderer.bridge_to_next_turn([self.close_id], [self.close_id], said)
        if bridged is None or bridged.token_ids[:2] != [self.close_id, self.close_id]:
            raise CannotBridge
        ids: list[int] = bridged.token_ids[2:]
        return ids

    def _rendered_turn(self, message: Message) -> tuple[Any, int]:
        """An assistant turn between two of the user; (rendered, index of the turn's last message, the first is 1)."""
        turn = shaping.turn(message, self.shape)
        around: Message = {"role": "user", "content": "."}
        with _in_its_own_words():
            return self.renderer.render([around, *turn, around]), len(turn)

    def _text(self, messages: list[Message], tools: list[Tool] | None) -> str:
        """What the template makes of messages and tools as they are. Raises whatever it raises."""
        return self.tokenizer.decode(self.renderer.render_ids(messages, tools=tools, add_generation_prompt=True))

    def _probe_separator(self) -> list[int] | None:
        """The ids between a reply and the next turn, where they are always the same and that turn is rendered as after
        any other turn; else None. Also None if a turn begins with a token that ends replies: it would come twice.
        """
        found: list[list[int]] = []
        for text in (".", ". ."):
            turn: Message = {"role": "user", "content": text}
            try:
                after = self._after_reply([turn])
                two = self.whole([{"role": "user", "content": "."}, turn], None)
            except (CannotBridge, CannotSay):
                return None
            added = two[len(self._opening) :]
            is_alike = two[: len(self._opening)] == self._opening and after[len(after) - len(added) :] == added
            if not self.generation_prompt or not added or not is_alike or added[0] in self.stop_ids:
                return None
            found.append(after[: len(after) - len(added)])
        return found[0] if found[0] == found[1] else None


@lru_cache(maxsize=8)
def rendering(folder: Path) -> Rendering:
    """The process's one Rendering of a policy folder."""
    return Rendering(folder)


@contextlib.contextmanager
def _in_its_own_words() -> Iterator[None]:
    """Templates and renderers fail in whatever way they like; what they say becomes CannotSay."""
    try:
        yield
    except (MemoryError, TooLong):
        raise
    except Exception as error:
        raise CannotSay(f"the policy's chat template cannot say this: {_why(error)}") from error


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, ValueError | TemplateError):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error}"


def _config(name: str, rendering: Rendering) -> Any:
    """All thinking is kept in history; what an opaque template does to it is its own affair."""
    if name == TEMPLATE:
        has_tools = rendering.token_id("<tool_call>") >= 0
        return DefaultRendererConfig(tool_parser="qwen3" if has_tools else None)
    return type(config_from_name(name))(thinking_retention="all")


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common beginning."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _last(ids: Sequence[int], wanted: int) -> int:
    """Index of the last occurrence, -1 when there is none."""
    return max((n for n, i in enumerate(ids) if i == wanted), default=-1)


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
