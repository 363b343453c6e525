"""Whose turn a request is: its role and its conversation (algorithms.md §4).

The harness's profile decides first. Where it is silent, the shape of the traffic does:

1. A request that holds sampled turns, or goes on from a recorded prompt, belongs to their conversation.
2. One whose opening text stood as an argument of an earlier tool call is that call's sub-agent.
3. One that quotes the reply of a call which compacted a conversation goes on with it.
4. One that opens with the tools and the system prompt of a known conversation is of its kind.
5. The first conversation with tools is main; later ones with other tools or another system prompt are sub-agents.
6. One without tools beside conversations that have some is auxiliary, or compacts the conversation that it holds.

A guess is revised when later traffic shows better: `Place.revisions` names the earlier calls and their new roles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from agents.proxy import canonical
from agents.proxy.branches import History, quotes
from agents.proxy.canonical import Message, ModelRequest
from agents.proxy.matching import Match, RecordedCall
from agents.proxy.profiles.base import (
    AUXILIARY,
    MAIN,
    SUB_AGENT,
    SUMMARY_SUFFIX,
    Features,
    Profile,
    Verdict,
    family,
    features,
)

#: Arguments of tool calls shorter than this name no job.
_JOB_CHARS = 8
#: A job of at least so many characters is recognised inside a longer text too.
_LONG_JOB_CHARS = 32
#: How much of a job is kept for comparison, and of how many arguments of one call.
_KEPT_CHARS, _KEPT_ARGUMENTS = 160, 16
#: How much of a system prompt and of the end of an instruction is searched.
_INSTRUCTION_CHARS = 8_000
#: How many of a request's messages belong to its opening.
_OPENING = 12

_COMPACTS = re.compile(r"\b(summar(y|i[sz]\w*)|compact(ion|ing)?|compress\w*|condens\w*|checkpoint|hand-?off)\b", re.I)
_OF_HISTORY = re.compile(r"\b(conversation|context|history|so far|progress|session|left|remain\w*|done)\b", re.I)
_TEXT_ONLY = re.compile(r"text only|(do not|don't|without) (call|use|using|calling)( any)? tools?|no tools?\b", re.I)


@dataclass(slots=True, eq=False)
class Conversation:
    """One conversation of an execution. `is_told`: its family is known for certain."""

    name: str
    family: str
    is_told: bool
    tools: frozenset[str]
    #: Texts of users before the first tool call.
    tasks: tuple[str, ...] = ()
    key: str = ""
    #: Its calls and their roles.
    calls: dict[int, str] = field(default_factory=dict)
    #: Tools and system prompts that its requests began with.
    openings: set[bytes] = field(default_factory=set)
    #: The newest recorded calls: of the conversation itself, and one that compacted it and that none has followed yet.
    last: RecordedCall | None = None
    summary: RecordedCall | None = None
    #: The call that compacted it, as long as only one other has followed.
    followed: RecordedCall | None = None

    def first_lines(self) -> set[str]:
        """Texts and lines of its tasks, as jobs are kept."""
        texts = [part for task in self.tasks for part in (task, *task.splitlines())]
        return {text.strip()[:_KEPT_CHARS] for text in texts}

    def opens(self, opening: bytes) -> bool:
        return opening in self.openings

    def is_quoted_by(self, texts: Sequence[str]) -> bool:
        return self.summary is not None and any(quotes(text, self.summary.reply["content"]) for text in texts)

    def unmarked_summary(self, texts: Sequence[str], match: Match) -> RecordedCall | None:
        """Its last call, if these texts carry that call's final answer in place of all that was before it."""
        last = self.last
        if last is None or self.summary is not None or last.reply.get("tool_calls") or last.role == AUXILIARY:
            return None
        if not last.turns() or any(call is last for _, call in match.recognised):
            return None
        said = last.reply["content"]
        return last if len(said) >= _LONG_JOB_CHARS and any(quotes(text, said) for text in texts) else None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request belongs. `conversation` is None for one that begins with it, and for auxiliary calls.

    `is_told`: its family is certain; `is_guessed`: that it compacts is not.
    """

    role: str
    conversation: Conversation | None
    key: str = ""
    is_told: bool = False
    is_guessed: bool = False
    #: What names the conversation of a call that may come again without a word; "" when nothing does (§2.4).
    retry_key: str = ""
    #: Earlier calls whose role turns out to be another: call number -> role.
    revisions: Mapping[int, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the conversation; "" for one that begins here."""
        if self.role == AUXILIARY:
            return AUXILIARY
        return "" if self.conversation is None else self.conversation.name

    def history(self) -> History:
        talk = self.conversation
        if talk is None:
            return History(True)
        is_revised = talk.last is not None and self.revisions.get(talk.last.number, "").endswith(SUMMARY_SUFFIX)
        return History(False, talk.last, talk.last if is_revised else talk.summary, talk.followed)


class _Asked:
    """A request as the rules look at it."""

    def __init__(self, request: ModelRequest, seen: Features, match: Match, verdict: Verdict) -> None:
        self.seen, self.match, self.verdict, self.key = seen, match, verdict, verdict.key
        self.opening = canonical.opening_key(request.messages, request.tools)
        self.tasks = _tasks(request.messages)
        #: Texts of the request that are no tool results and no system prompts, the first ones.
        self.opening_texts = [m["content"] for m in request.messages[:_OPENING] if m["role"] in ("user", "assistant")]


class Conversations:
    """The conversations of one execution attempt."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._all: list[Conversation] = []
        self._by_key: dict[str, Conversation] = {}
        self._of_call: dict[int, Conversation] = {}
        self._by_name: dict[str, Conversation] = {}
        #: Texts that tool calls gave to somebody -> the conversation that said them.
        self._jobs: dict[str, Conversation | None] = {}
        #: Calls that were only guessed to compact.
        self._guessed: set[int] = set()
        #: Calls whose role turned out to be another than `place` said: call number -> role.
        self.revised: dict[int, str] = {}

    # -- reading: safe beside other readers ---------------------------------------------------------------------

    def place(self, request: ModelRequest, headers: Mapping[str, str], match: Match, path: str = "") -> Place:
        """Role and conversation of a request. Changes nothing."""
        seen = features(request, headers, path)
        verdict = self.profile.judge(seen)
        if verdict.role == AUXILIARY:
            return Place(AUXILIARY, None, is_told=True, retry_key=self._retry_key(verdict))
        asked = _Asked(request, seen, match, verdict)
        home, kind = self._home(asked), verdict.role
        is_guessed = not verdict.is_summary and self._looks_like_summary(asked, home)
        if home is None and (verdict.is_summary or is_guessed):
            home = self._compacted(asked)
        is_told = kind is not None
        if kind is None and home is not None:
            kind = home.family
        main = self._main()
        is_fresh = bool(verdict.key) and (main is None or bool(main.key))
        if kind is None:
            kind, is_told, is_fresh = self._family(asked)
            if kind == AUXILIARY:
                return Place(AUXILIARY, None, retry_key=self._retry_key(verdict))
        if home is None and kind == MAIN:
            is_fresh = is_fresh or (is_told and main is not None and not main.is_told and not main.opens(asked.opening))
            home = None if is_fresh else main
        role = kind + SUMMARY_SUFFIX if verdict.is_summary or is_guessed else kind
        place = Place(role, home, verdict.key, is_told, is_guessed, self._retry_key(verdict))
        return replace(place, revisions=self._revisions(asked, place))

    def _home(self, asked: _Asked) -> Conversation | None:
        """The conversation that a request surely goes on with."""
        if self.profile.is_single:
            return self._main()
        if asked.key:
            return self._by_key.get(asked.key)
        if (shown := self._shown(asked.match)) is not None:
            return shown
        if self._job_of(asked.tasks) is not None:
            return None
        return self._quoted(asked)

    def _shown(self, match: Match) -> Conversation | None:
        """The conversation whose sampled turns, or whose whole prompt, a request holds."""
        found = None if match.parent is None else self._by_name.get(match.parent.conversation)
        for _, call in reversed(match.recognised):
            found = found or self._by_name.get(call.conversation)
        return found

    def _quoted(self, asked: _Asked) -> Conversation | None:
        """The conversation that a request without sampled turns goes on with: it carries what a summary said."""
        talks = [c for c in reversed(self._all) if asked.verdict.role in (None, c.family)]
        return next((c for c in talks if c.is_quoted_by(asked.opening_texts)), None)

    def _compacted(self, asked: _Asked) -> Conversation | None:
        """The conversation that a call without its turns compacts: its task stands in the text, else the newest."""
        talks = [c for c in reversed(self._all) if asked.verdict.role in (None, c.family)]
        whole = "\n".join(asked.opening_texts)
        return next((c for c in talks if c.tasks and c.tasks[-1].strip() in whole), next(iter(talks), None))

    def _looks_like_summary(self, asked: _Asked, home: Conversation | None) -> bool:
        """A call that asks to compact the history that it holds."""
        seen, question = asked.seen, asked.seen.last_user[-_INSTRUCTION_CHARS:]
        asks = bool(_COMPACTS.search(question))
        if not seen.tools and any(talk.tools for talk in self._all):
            if not asks and not _COMPACTS.search(seen.system[:_INSTRUCTION_CHARS]):
                return False
            whole = "\n".join(asked.opening_texts)
            return bool(home) or any(c.calls and c.tasks and c.tasks[-1].strip() in whole for c in self._all)
        if home is None or not asks or not asked.match.turns:
            return False
        return bool(_TEXT_ONLY.search(question)) or (self.profile.is_open and bool(_OF_HISTORY.search(question)))

    def _family(self, asked: _Asked) -> tuple[str, bool, bool]:
        """Family of a conversation that begins here, whether that is certain, and whether it is surely a new one."""
        seen, main, tools = asked.seen, self._main(), set(asked.seen.tools)
        has_tools = any(talk.tools for talk in self._all)
        if seen.traits.get("output_format") or (
            seen.traits.get("forced_tool") and len(tools) == 1 and main is not None
        ):
            return AUXILIARY, False, True
        if not tools and has_tools:
            return AUXILIARY, False, True
        if self._job_of(asked.tasks) is not None:
            return SUB_AGENT, True, True
        for talk in self._all:
            if talk.opens(asked.opening):
                return talk.family, False, False
        if main is None:
            return MAIN, False, True
        is_outdone = (tools and not main.tools and len(main.calls) == 1) or (
            _has_jobs(tools) and not _has_jobs(main.tools) and main.tools <= tools
        )
        return (MAIN, False, True) if is_outdone and not main.is_told else (SUB_AGENT, False, True)

    def _revisions(self, asked: _Asked, place: Place) -> dict[int, str]:
        """Roles of earlier calls that this request proves wrong."""
        found: dict[int, str] = {}
        parent, home = asked.match.parent, place.conversation
        if parent is not None and asked.match.after == "reply" and parent.number in self._guessed:
            found[parent.number] = family(parent.role)
        if family(place.role) == MAIN and home is None:
            for talk in self._all:
                if talk.family == MAIN and not talk.is_told and not talk.opens(asked.opening):
                    found |= {n: SUB_AGENT + r.removeprefix(MAIN) for n, r in talk.calls.items()}
                    found |= {} if talk.tools else dict.fromkeys(talk.calls, AUXILIARY)
        unseen = None if home is None else home.unmarked_summary(asked.opening_texts, asked.match)
        if unseen is not None:
            found[unseen.number] = unseen.role + SUMMARY_SUFFIX
        return found

    def _retry_key(self, verdict: Verdict) -> str:
        return "" if self.profile.marks_retries else verdict.key

    def _main(self) -> Conversation | None:
        return next((c for c in self._all if c.family == MAIN), None)

    def _job_of(self, tasks: tuple[str, ...]) -> str | None:
        """The job that one of these texts hands over."""
        return next((job for job in list(self._jobs) if any(_gives(text, job) for text in tasks)), None)

    # -- changing: on the event loop only -----------------------------------------------------------------------

    def begin(self, number: int, request: ModelRequest, place: Place, start: int = 0) -> str:
        """A call begins; returns the name of its conversation. `start`: messages before it were seen already."""
        talk = place.conversation
        if place.role != AUXILIARY:
            talk = talk or self._by_key.get(place.key) or self._open(request, place)
            if place.key and not talk.key:
                talk.key = place.key
                self._by_key[place.key] = talk
            talk.calls[number] = place.role
            talk.openings.add(canonical.opening_key(request.messages, request.tools))
            talk.tools = talk.tools or _names(request)
            self._of_call[number] = talk
            if place.is_guessed:
                self._guessed.add(number)
        for message in request.messages[start:]:
            self._hear(message, talk)
        for revised, role in place.revisions.items():
            self._revise(revised, role)
        return AUXILIARY if talk is None else talk.name

    def restore(self, call: RecordedCall, request: ModelRequest) -> None:
        """A call of an earlier process, with the messages that it added."""
        if call.role != AUXILIARY:
            talk = self._by_name.get(call.conversation)
            place = Place(call.role, talk, "" if family(call.role) == MAIN else call.conversation, is_told=True)
            if talk is None:
                self._open(request, place, call.conversation)
            self.begin(call.number, request, place)

    def add(self, call: RecordedCall) -> None:
        """A call is recorded."""
        talk = self._by_name.get(call.conversation)
        if talk is None:
            return
        if call.role.endswith(SUMMARY_SUFFIX):
            talk.summary = call
        elif talk.last is None or call.number > talk.last.number:
            talk.last, talk.summary, talk.followed = call, None, talk.summary
        self._hear(call.reply, talk)

    def _open(self, request: ModelRequest, place: Place, name: str = "") -> Conversation:
        kind = family(place.role)
        if not name:
            number = sum(c.family == kind for c in self._by_name.values()) + 1
            name = MAIN if kind == MAIN and number == 1 else f"{kind}-{number}"
            name = place.key if kind != MAIN and place.key else name
            while name in self._by_name:
                number += 1
                name = f"{kind}-{number}"
        talk = Conversation(
            name=name,
            family=kind,
            is_told=place.is_told,
            tools=_names(request),
            tasks=_tasks(request.messages),
            key=place.key,
        )
        self._all.append(talk)
        self._by_name[name] = talk
        if place.key:
            self._by_key[place.key] = talk
        return talk

    def _hear(self, message: Message, talk: Conversation | None) -> None:
        """Remember the jobs that a turn hands out: a conversation that was taken for main and has one is no main."""
        for use in message.get("tool_calls", ()):
            for text in islice(_texts(use["function"]["arguments"]), _KEPT_ARGUMENTS):
                job = text.strip()[:_KEPT_CHARS]
                if len(job) < _JOB_CHARS or not any(c.isspace() for c in job) or job in self._jobs:
                    continue
                self._jobs[job] = talk
                for other in self._all:
                    is_guess = other.family == MAIN and not other.is_told and other is not talk and other.tools
                    if is_guess and talk is not None and _has_jobs(talk.tools) and job in other.first_lines():
                        self.revised |= self._demote(other)

    def _demote(self, talk: Conversation) -> dict[int, str]:
        """It is no main agent after all."""
        talk.family, talk.is_told = SUB_AGENT, True
        talk.calls = {number: role.replace(MAIN, SUB_AGENT, 1) for number, role in talk.calls.items()}
        return dict(talk.calls)

    def _revise(self, number: int, role: str) -> None:
        talk = self._of_call.get(number)
        self._guessed.discard(number)
        if talk is None:
            return
        talk.calls[number] = role
        self.revised[number] = role
        if family(role) != talk.family:
            talk.family, talk.is_told = family(role), True
            if role == AUXILIARY:
                self._all.remove(talk)


def _names(request: ModelRequest) -> frozenset[str]:
    return frozenset(tool["function"]["name"] for tool in request.tools)


def _tasks(messages: list[Message]) -> tuple[str, ...]:
    """Texts of users before the first tool call."""
    found: list[str] = []
    for message in messages:
        if message["role"] == "assistant" and message.get("tool_calls"):
            break
        if message["role"] == "user":
            found.append(message["content"])
    return tuple(found)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _gives(text: str, job: str) -> bool:
    """Whether a text hands over this job: as a whole, on lines of its own, or, if it is long, inside a sentence."""
    if job not in text:
        return False
    return len(job) >= _LONG_JOB_CHARS or f"\n{job}\n" in f"\n{text}\n"


def _has_jobs(tools: Any) -> bool:
    """Whether some tool starts other agents, by its name."""
    return any(re.search(r"agent|task$|delegate|spawn|subtask", name, re.I) for name in tools)
