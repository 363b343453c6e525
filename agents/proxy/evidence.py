"""What the texts of a request say of its role: jobs that tool calls passed on, questions for a summary. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from agents.proxy import canonical
from agents.proxy.canonical import Message, ModelRequest
from agents.proxy.matching import Match
from agents.proxy.profiles.base import Features, Verdict

#: Shortest job, in characters; and shortest one that is recognised inside a sentence, too.
_JOB_CHARS, _LONG_JOB_CHARS = 8, 32
#: Characters of a job that are kept for comparison; texts in the arguments of one tool call that are looked at.
_KEPT_CHARS, _KEPT_ARGUMENTS = 160, 16
#: Characters that are searched at the beginning of a system prompt and at the end of an instruction.
_INSTRUCTION_CHARS = 8_000
#: A system prompt that wants a title says so within so many characters.
_TITLE_CHARS = 400
#: So many first messages of a request are its opening.
_OPENING = 12
#: A final answer of at least so many characters is a summary if it comes back as a text.
QUOTE_CHARS = 32

_COMPACTS = re.compile(r"\b(summar(y|i[sz]\w*)|compact(ion|ing)?|compress\w*|condens\w*|checkpoint|hand-?off)\b", re.I)
_OF_HISTORY = re.compile(r"\b(conversation|context|history|so far|progress|session|left|remain\w*|done)\b", re.I)
_TEXT_ONLY = re.compile(r"text only|(do not|don't|without) (call|use|using|calling)( any)? tools?|no tools?\b", re.I)
_TITLES = re.compile(r"\b(title|headline|topic|slug|branch name|file ?name)s?\b", re.I)
_DELEGATES = re.compile(r"agent|task$|delegate|spawn|subtask", re.I)


class Asked:
    """What the rules of `agents.proxy.conversations` look at in a request."""

    def __init__(self, request: ModelRequest, seen: Features, match: Match, verdict: Verdict) -> None:
        self.seen, self.match, self.verdict, self.key = seen, match, verdict, verdict.key
        messages = request.messages
        self.messages = messages
        self.tools = frozenset(seen.tools)
        self.opening = canonical.opening_key(messages, request.tools)
        #: Texts of users before the first tool call.
        self.tasks = tasks(messages)
        end = _opening_end(messages)
        #: Hash of the messages up to there, without system messages; and their number.
        self.spoken = match.spoken_keys[end - 1] if end else b""
        self.num_spoken = sum(m["role"] != "system" for m in messages[:end])
        #: Texts of users and assistants among the first messages.
        self.texts = [m["content"] for m in messages[:_OPENING] if m["role"] in ("user", "assistant")]
        self.has_history = any(m["role"] == "assistant" for m in messages)
        self._question = seen.last_user[-_INSTRUCTION_CHARS:]
        #: Whether the reply must have one format, or call one certain tool.
        self.is_bound = bool(seen.traits.get("output_format")) or (
            bool(seen.traits.get("forced_tool")) and len(seen.tools) == 1
        )

    @property
    def asks_to_compact(self) -> bool:
        """Whether the last message asks for a summary.

        Without tools the system prompt may ask for it, too, unless it asks for a title.
        """
        return _compacts(self._question, "" if self.tools else self.seen.system)

    @property
    def asks_for_title(self) -> bool:
        return bool(_TITLES.search(self.seen.system[:_INSTRUCTION_CHARS]) or _TITLES.search(self._question))

    @property
    def wants_text_only(self) -> bool:
        return bool(_TEXT_ONLY.search(self._question))

    @property
    def speaks_of_history(self) -> bool:
        return bool(_OF_HISTORY.search(self._question))

    @property
    def whole_text(self) -> str:
        return "\n".join(self.texts)

    def jobs(self) -> Iterator[str]:
        """Jobs that the tool calls in its history pass on."""
        for message in self.messages:
            yield from jobs_of(message)


def asks_to_compact(request: ModelRequest) -> bool:
    """Whether a request asks for a summary of the conversation that it holds, judged by its own texts alone."""
    last = next((m for m in reversed(request.messages) if m["role"] != "system"), None)
    question = last["content"][-_INSTRUCTION_CHARS:] if last is not None and last["role"] == "user" else ""
    first = request.messages[0]
    system = first["content"] if first["role"] == "system" else ""
    if request.tools:
        return bool(_COMPACTS.search(question) and _TEXT_ONLY.search(question))
    return _compacts(question, system)


def tasks(messages: list[Message]) -> tuple[str, ...]:
    """Texts of users before the first tool call."""
    return tuple(m["content"] for m in messages[: _opening_end(messages)] if m["role"] == "user")


def jobs_of(message: Message) -> Iterator[str]:
    """Texts in the arguments of a turn's tool calls that may be jobs for a sub-agent, cut for comparison."""
    for use in message.get("tool_calls", ()):
        for text in islice(_texts(use["function"]["arguments"]), _KEPT_ARGUMENTS):
            job = text.strip()[:_KEPT_CHARS]
            if len(job) >= _JOB_CHARS and any(c.isspace() for c in job):
                yield job


def lines_of(texts: Iterable[str]) -> set[str]:
    """The texts, and each line of them, cut as jobs are."""
    return {part.strip()[:_KEPT_CHARS] for text in texts for part in (text, *text.splitlines())}


def holds_job(text: str, job: str) -> bool:
    """Whether a text contains this job on lines of its own or, if the job is long, anywhere."""
    if job not in text:
        return False
    return len(job) >= _LONG_JOB_CHARS or f"\n{job}\n" in f"\n{text}\n"


def can_delegate(tools: Iterable[str]) -> bool:
    """Whether a tool's name says that it starts other agents."""
    return any(_DELEGATES.search(name) for name in tools)


def _compacts(question: str, system: str) -> bool:
    head = system[:_INSTRUCTION_CHARS]
    return bool(_COMPACTS.search(question) or (_COMPACTS.search(head) and not _TITLES.search(head[:_TITLE_CHARS])))


def _opening_end(messages: list[Message]) -> int:
    return next((i for i, m in enumerate(messages) if m["role"] == "assistant" and m.get("tool_calls")), len(messages))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
