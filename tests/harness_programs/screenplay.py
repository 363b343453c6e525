"""What the policy says to a real harness: a script that finds its place in whatever prompt the harness sends.

Every scripted reply carries a label, `(main.2)` or `(sub.a.0)`. A prompt belongs to the conversation whose marker,
`[[MAIN]]` or `[[SUB:a]]`, stands in it first, and goes on after the newest label of that conversation. So the script
works through compactions, retries and whatever else a harness does with its history, and says for each request which
role it has: the truth that the proxy's record is held against.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from agents.core.codec import Int32s
from agents.proxy.scripted import Fault, Turn
from tests.proxy.backstage import policy, sampled, tool_text

_MARKER = re.compile(r"\[\[(?:(MAIN)|SUB:(\w+))\]\]")
_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?=<\|im_start\|>|\Z)", re.S)


@dataclass(frozen=True)
class Call:
    """A tool call of a reply."""

    tool: str
    arguments: Mapping[str, object]


@dataclass
class Reply:
    """One scripted reply. `first`, when given, is what the first request that gets it meets instead.

    `calls` may depend on the text of the prompt.
    """

    calls: tuple[Call, ...] | Callable[[str], tuple[Call, ...]] = ()
    text: str = ""
    first: Callable[[list[int]], Turn] | None = None


@dataclass(frozen=True)
class Take:
    """One request as the engine saw it. `role` is what it truly was."""

    role: str
    conversation: str
    step: int
    input_ids: Int32s
    output_ids: Int32s
    played: bool


@dataclass
class Screenplay:
    """`parts`: conversation → its replies. `cues`: (role, text that only such a request has), in order of trial.

    A cue's role is `summary` or `auxiliary`. The last reply of a part repeats.
    """

    parts: dict[str, list[Reply]]
    cues: tuple[tuple[str, str], ...] = ()
    takes: list[Take] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __call__(self, input_ids: list[int]) -> Turn:
        continued = self._continued(input_ids)
        if continued is not None:
            return continued
        role, conversation, step, reply = self._find(input_ids)
        assert not callable(reply.calls)
        text = "\n".join([reply.text, *(tool_text(call.tool, **call.arguments) for call in reply.calls)])
        output = sampled(text)
        first, reply.first = reply.first, None
        turn = first(output) if first is not None else Turn(output)
        played = turn.fault is None
        self.takes.append(
            Take(role, conversation, step, np.asarray(input_ids, np.int32), np.asarray(output, np.int32), played)
        )
        return turn

    def _continued(self, input_ids: list[int]) -> Turn | None:
        """The rest of a reply whose beginning stands in the prompt: the proxy goes on with it at another engine."""
        for take in reversed(self.takes):
            asked, said = input_ids[: len(take.input_ids)], input_ids[len(take.input_ids) :]
            begun = 0 < len(said) < len(take.output_ids) and take.output_ids[: len(said)].tolist() == said
            if begun and take.input_ids.tolist() == asked:
                return Turn(take.output_ids[len(said) :].tolist())
        return None

    def _find(self, input_ids: list[int]) -> tuple[str, str, int, Reply]:
        text = policy().tokenizer.decode(input_ids)
        turns = _TURN.findall(text)
        asked = "\n".join([*(said for role, said in turns[:1] if role == "system"), *_last_asked(turns)])
        found = _MARKER.search(text)
        conversation = "" if found is None else "main" if found[1] else f"sub.{found[2]}"
        cue = next((role for role, words in self.cues if words in asked), "")
        if cue == "auxiliary" or not conversation:
            if not cue:
                self.problems.append(f"a request of no conversation: {text[:200]!r} … {text[-300:]!r}")
            return "auxiliary", conversation, 0, Reply(text="A scripted title")
        family = "main" if conversation == "main" else "sub-agent"
        step = 1 + max((int(n) for n in re.findall(rf"\({re.escape(conversation)}\.(\d+)\)", text)), default=-1)
        if cue == "summary":
            marker = "[[MAIN]]" if conversation == "main" else f"[[SUB:{conversation[4:]}]]"
            done = f"{marker} done so far: ({conversation}.{step - 1})"
            summary = f"<analysis>scripted</analysis>\n<summary>\n{done}\n</summary>"
            return f"{family}-summary", conversation, step, Reply(text=summary)
        part = self.parts.get(conversation)
        if part is None:
            self.problems.append(f"nobody wrote {conversation}")
            return family, conversation, step, Reply(text="nothing")
        reply = part[min(step, len(part) - 1)]
        calls = reply.calls(text) if callable(reply.calls) else reply.calls
        labelled = Reply(calls, f"{reply.text} ({conversation}.{step})".strip(), reply.first)
        reply.first = None
        return family, conversation, step, labelled


def _last_asked(turns: list[tuple[str, str]]) -> list[str]:
    """The newest turns that are not the assistant's; the last turn is the generation prompt."""
    found: list[str] = []
    for role, said in reversed(turns[:-1]):
        if role == "assistant":
            break
        found.append(said)
    return found


def after(seconds: float) -> Callable[[list[int]], Turn]:
    """A reply whose first token comes late."""
    import asyncio

    async def wait() -> None:
        await asyncio.sleep(seconds)

    return lambda ids: Turn(ids, before={0: wait})


def failing(fault: Fault, after_tokens: int = 0) -> Callable[[list[int]], Turn]:
    """A reply that the engine does not bring to its end."""
    return lambda ids: Turn(ids, fault=fault, fault_after=after_tokens)


def interrupted(what: Callable[[], Awaitable[None]], after_tokens: int) -> Callable[[list[int]], Turn]:
    """A reply in the middle of which something happens."""
    return lambda ids: Turn(ids, before={min(after_tokens, len(ids) - 1): what})
