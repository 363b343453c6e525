"""The role and the conversation of a request (docs/algorithms.md §4).

The harness's profile decides first. What it leaves open is read off the traffic. The first rule that applies decides:

1. If the request holds recorded turns, or begins with a whole recorded prompt, it belongs to their conversation.
2. If its opening text was an argument of an earlier tool call, it begins the sub-agent that this call started.
3. If it quotes the reply of a call that compacted a conversation, it continues that conversation.
4. If its tools and system prompt are those of a known conversation, it is main or a sub-agent as that one is.
5. If it has tools, it is main if it is the first such conversation, else a sub-agent.
6. If it has no tools while other conversations have some, it compacts the conversation whose turns or beginning it
   holds. If it holds none, it is auxiliary.

Such a role may be a guess. If later traffic proves it wrong, `Place.revisions` gives the earlier calls their right one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agents.proxy.branches import ConversationState, quotes
from agents.proxy.canonical import Message, ModelRequest
from agents.proxy.evidence import QUOTE_CHARS, Asked, can_delegate, holds_job, jobs_of, lines_of, tasks
from agents.proxy.matching import Match, PriorCall
from agents.proxy.profiles.base import AUXILIARY, MAIN, SUB_AGENT, SUMMARY_SUFFIX, Profile, family, features

#: So many auxiliary calls are remembered in case one proves to have compacted a conversation.
_MAX_LONG_AUXILIARY = 8
#: A harness's own name for a conversation is recorded up to this length.
NAME_CHARS = 100


@dataclass(slots=True, eq=False)
class Conversation:
    """One conversation of an execution. `family` is main or sub-agent; `is_certain`: that is known, not guessed."""

    name: str
    family: str
    is_certain: bool
    tools: frozenset[str]
    tasks: tuple[str, ...] = ()
    key: str = ""
    #: Hash of its messages before the first tool call, without system messages. Empty if that is only one message.
    spoken: bytes = b""
    #: Every request so far had no tools, or had to use one format or one tool: they may prove to be auxiliary calls.
    is_provisional: bool = False
    #: Call number -> role.
    calls: dict[int, str] = field(default_factory=dict)
    #: Hashes of the tools and system prompts that its requests opened with.
    openings: set[bytes] = field(default_factory=set)
    #: Its newest recorded call that is no summary.
    last: PriorCall | None = None
    #: The call that compacted it, if no other call has followed yet.
    summary: PriorCall | None = None
    #: The call that compacted it, if `last` was the first to follow.
    followed: PriorCall | None = None

    @property
    def task(self) -> str:
        """The last text of a user before its first tool call."""
        return self.tasks[-1].strip() if self.tasks else ""

    def is_guessed(self, kind: str) -> bool:
        """Whether it is taken for main, or for a sub-agent, but may prove to be the other."""
        return self.family == kind and not self.is_certain

    def is_held_by(self, asked: Asked) -> bool:
        """Whether a request contains this conversation's messages up to its first tool call."""
        return bool(self.spoken) and self.spoken in asked.match.spoken_keys

    def is_quoted_by(self, asked: Asked) -> bool:
        """Whether a request carries a summary of this conversation."""
        return self.unmarked_summary(asked) is not None or (
            self.summary is not None and any(quotes(text, self.summary.reply["content"]) for text in asked.texts)
        )

    def unmarked_summary(self, asked: Asked) -> PriorCall | None:
        """Its last call, if that proves to be a summary: a request carries its answer in place of all turns before."""
        last = self.last
        if last is None or self.summary is not None or last.reply.get("tool_calls"):
            return None
        held = [call for _, call in asked.match.recognised]
        said = last.reply["content"]
        if asked.opening in self.openings and last.opening_key not in (b"", asked.opening) and len(self.calls) > 1:
            # That call had other tools or another system prompt, and this request has the former ones again.
            is_all = not [call for call in held if call is not last]
            return last if is_all and (held or any(quotes(text, said) for text in asked.texts)) else None
        if not (last.turns() or self.is_provisional) or last in held:
            return None
        return last if len(said) >= QUOTE_CHARS and any(quotes(text, said) for text in asked.texts) else None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request belongs. `conversation` is None if the request begins a new one, and for auxiliary calls.

    `is_certain`: that it is main or a sub-agent is known, not guessed. `is_guessed`: that it compacts is only a guess.
    """

    role: str
    conversation: Conversation | None
    key: str = ""
    is_certain: bool = False
    is_guessed: bool = False
    #: The harness's name of the conversation, if this harness repeats failed calls without saying so; else "" (§2.4).
    retry_key: str = ""
    is_provisional: bool = False
    spoken: bytes = b""
    #: An earlier call that was taken for auxiliary, and proves to have compacted this conversation.
    found_summary: PriorCall | None = None
    #: Earlier calls whose role proves wrong: call number -> right role.
    revisions: Mapping[int, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the conversation; "" for one that begins here."""
        if self.role == AUXILIARY:
            return AUXILIARY
        return "" if self.conversation is None else self.conversation.name

    def state(self) -> ConversationState:
        """What is known of the conversation before this request, with what the request itself reveals of it."""
        known = self.conversation
        if known is None:
            return ConversationState(True)
        is_revised = known.last is not None and self.revisions.get(known.last.number, "").endswith(SUMMARY_SUFFIX)
        summary = self.found_summary or (known.last if is_revised else known.summary)
        return ConversationState(False, known.last, summary, known.followed)


class Conversations:
    """The conversations of one execution attempt."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._all: list[Conversation] = []
        self._by_key: dict[str, Conversation] = {}
        self._by_name: dict[str, Conversation] = {}
        self._of_call: dict[int, Conversation] = {}
        self._recorded: dict[int, PriorCall] = {}
        #: Texts that tool calls passed on as jobs, and the conversations of these calls.
        self._jobs: dict[str, Conversation | None] = {}
        #: The newest auxiliary calls with long answers: one may prove to be a summary.
        self._long_auxiliary: deque[PriorCall] = deque(maxlen=_MAX_LONG_AUXILIARY)
        #: Calls whose role as a summary is only a guess.
        self._guessed: set[int] = set()
        #: Calls whose role proved to be other than `place` had said: call number -> right role.
        self.revised: dict[int, str] = {}

    # -- reading: safe beside other readers ---------------------------------------------------------------------

    def place(self, request: ModelRequest, headers: Mapping[str, str], match: Match, path: str = "") -> Place:
        """Role and conversation of a request. Changes nothing."""
        seen = features(request, headers, path)
        verdict = self.profile.judge(seen)
        retry_key = "" if self.profile.marks_retries else verdict.key
        if verdict.role == AUXILIARY:
            return Place(AUXILIARY, None, is_certain=True, retry_key=retry_key)
        asked = Asked(request, seen, match, verdict)
        home, kind = self._home(asked), verdict.role
        if home is not None and not asked.key and kind not in (None, home.family):
            home = None
        is_guessed = not verdict.is_summary and self._looks_like_summary(asked, home)
        if home is None and (verdict.is_summary or is_guessed):
            home = self._compacted(asked)
        is_certain, main = kind is not None, self._main()
        is_new = bool(verdict.key) and (main is None or bool(main.key))
        if kind is None and home is not None:
            kind = home.family
        if kind is None:
            kind, is_certain, is_new = self._family(asked)
            if kind == AUXILIARY:
                return Place(AUXILIARY, None, retry_key=retry_key)
        if home is None and kind == MAIN:
            # A request that is main for certain and opens in another way shows that what was taken for main is not.
            is_other = main is not None and not main.is_certain and asked.opening not in main.openings
            is_displaced = is_certain and is_other and main is not None and bool(self._doubtful(main))
            home = None if is_new or is_displaced else main
        return Place(
            role=kind + SUMMARY_SUFFIX if verdict.is_summary or is_guessed else kind,
            conversation=home,
            key=verdict.key,
            is_certain=is_certain,
            is_guessed=is_guessed,
            retry_key=retry_key,
            is_provisional=asked.is_bound or not asked.tools,
            spoken=asked.spoken if asked.num_spoken > 1 else b"",
            revisions=self._revisions(asked, kind, home),
            found_summary=None
            if home is None or verdict.is_summary or is_guessed
            else self._auxiliary_summary(asked, home),
        )

    def _home(self, asked: Asked) -> Conversation | None:
        """The conversation that a request certainly belongs to; None if that cannot be told, or if it begins one."""
        if self.profile.is_single:
            return self._main()
        if asked.key:
            return self._by_key.get(asked.key)
        if (shown := self._shown(asked.match)) is not None:
            return shown
        if self._job_of(asked.tasks) is not None:
            return None
        return next((c for c in self._candidates(asked) if c.is_quoted_by(asked)), None)

    def _shown(self, match: Match) -> Conversation | None:
        """The conversation of the recorded prompt or reply that a request continues, else of the last recorded turn."""
        found = None if match.parent is None else self._by_name.get(match.parent.conversation)
        for _, call in reversed(match.recognised):
            found = found or self._by_name.get(call.conversation)
        return found

    def _candidates(self, asked: Asked) -> list[Conversation]:
        """Conversations that agree with what the profile says of the request, newest first."""
        return [c for c in reversed(self._all) if asked.verdict.role in (None, c.family)]

    def _compacted(self, asked: Asked) -> Conversation | None:
        """The conversation that a request compacts, if the request holds none of its turns.

        Best is one whose beginning the request contains; then one that waits for tool results and whose task the
        request contains; then one that waits; then one whose task it contains; then the newest. Of several tasks the
        one that comes first counts: the history of a main agent contains those of its sub-agents too, but later.
        """
        candidates, whole = self._candidates(asked), asked.whole_text
        held = [c for c in candidates if c.is_held_by(asked)]
        named = sorted((c for c in candidates if c.task and c.task in whole), key=lambda c: whole.find(c.task))
        waiting = [c for c in candidates if c.last is not None and c.last.reply.get("tool_calls")]
        named_waiting = [c for c in named if c in waiting]
        return next(iter([*held, *named_waiting, *waiting, *named, *candidates]), None)

    def _looks_like_summary(self, asked: Asked, home: Conversation | None) -> bool:
        """Whether a request asks for a summary of the history that it holds."""
        if asked.is_bound:
            return False
        if not asked.tools and any(conversation.tools for conversation in self._all):
            if not asked.asks_to_compact and asked.asks_for_title:
                return False
            if asked.match.turns or any(conversation.is_held_by(asked) for conversation in self._all):
                return True
            whole = asked.whole_text
            return asked.asks_to_compact and any(c.calls and c.task and c.task in whole for c in self._all)
        if home is None or not asked.asks_to_compact or not asked.has_history:
            return False
        return asked.wants_text_only or (self.profile.is_open and asked.speaks_of_history)

    def _family(self, asked: Asked) -> tuple[str, bool, bool]:
        """The family of a request of no known conversation; whether that is certain; whether it begins a new one.

        Where it does not, and the family is main, it goes on with the main conversation.
        """
        main, has_tools = self._main(), any(conversation.tools for conversation in self._all)
        if asked.seen.traits.get("output_format") or (asked.is_bound and main is not None):
            return AUXILIARY, False, True
        if not asked.tools and has_tools:
            return AUXILIARY, False, True
        if self._job_of(asked.tasks) is not None:
            return SUB_AGENT, True, True
        for conversation in self._all:
            if asked.opening in conversation.openings:
                return conversation.family, False, False
        if main is None:
            return MAIN, False, True
        if not main.is_certain and self._is_rather_main(asked, main):
            return MAIN, False, True
        return SUB_AGENT, False, True

    def _is_rather_main(self, asked: Asked, main: Conversation) -> bool:
        """Whether a new conversation is likelier to be main than the one that was taken for it."""
        if main.is_provisional and len(main.calls) == 1 and asked.tools:
            return True
        if can_delegate(asked.tools) and not can_delegate(main.tools):
            return True
        handed = lines_of(main.tasks)
        return any(job in handed for job in asked.jobs())

    def _revisions(self, asked: Asked, kind: str, home: Conversation | None) -> dict[int, str]:
        """The right roles of earlier calls, where this request proves their present ones wrong."""
        found: dict[int, str] = {}
        parent = asked.match.parent
        if parent is not None and asked.match.after == "reply" and parent.number in self._guessed:
            found[parent.number] = family(parent.role)
        if home is None and kind == MAIN:
            for conversation in self._all:
                if conversation.is_guessed(MAIN) and asked.opening not in conversation.openings:
                    found |= {n: _role(SUB_AGENT, r) for n, r in list(conversation.calls.items())}
                    if conversation.is_provisional:
                        found |= dict.fromkeys(self._doubtful(conversation), AUXILIARY)
        if home is None:
            return found
        if home.is_provisional and asked.tools and not asked.match.turns and parent is None:
            found |= dict.fromkeys(self._doubtful(home), AUXILIARY)
        unseen = home.unmarked_summary(asked)
        if unseen is not None:
            found[unseen.number] = family(unseen.role) + SUMMARY_SUFFIX
        return found

    def _doubtful(self, conversation: Conversation) -> list[int]:
        """Calls of a conversation that are no summaries, or only taken for summaries."""
        calls = list(conversation.calls.items())
        return [n for n, role in calls if n in self._guessed or not role.endswith(SUMMARY_SUFFIX)]

    def _auxiliary_summary(self, asked: Asked, home: Conversation) -> PriorCall | None:
        """A call that was taken for auxiliary, if this request carries its answer in place of the turns before."""
        if home.last is None or home.summary is not None or any(c is home.last for _, c in asked.match.recognised):
            return None
        later = [call for call in list(self._long_auxiliary) if call.number > home.last.number]
        return next((c for c in later if any(quotes(text, c.reply["content"]) for text in asked.texts)), None)

    def _main(self) -> Conversation | None:
        return next((c for c in self._all if c.family == MAIN), None)

    def _job_of(self, texts: tuple[str, ...]) -> str | None:
        """A job that a tool call passed on, if one of these texts contains it."""
        return next((job for job in list(self._jobs) if any(holds_job(text, job) for text in texts)), None)

    # -- changing: on the event loop only -----------------------------------------------------------------------

    def begin(self, number: int, request: ModelRequest, place: Place, opening: bytes, start: int = 0) -> str:
        """Enter a call that begins; returns the name of its conversation. Messages before `start` were seen already."""
        conversation = place.conversation
        if place.role != AUXILIARY:
            conversation = conversation or self._by_key.get(place.key) or self._open(request, place)
            if place.key and not conversation.key:
                conversation.key = place.key
                self._by_key[place.key] = conversation
            if place.is_certain and not conversation.is_certain:
                if conversation.family != family(place.role):
                    self._set_family(conversation, family(place.role))
                conversation.is_certain = True
            if not place.is_provisional:
                conversation.is_provisional = False
                conversation.tools = conversation.tools or _names(request)
            conversation.calls[number] = place.role
            conversation.openings.add(opening)
            self._of_call[number] = conversation
            if place.is_guessed:
                self._guessed.add(number)
        for message in request.messages[start:]:
            self._note_jobs(message, conversation)
        for revised, role in place.revisions.items():
            self._revise(revised, role)
        if (found := place.found_summary) is not None and conversation is not None and found in self._long_auxiliary:
            self._long_auxiliary.remove(found)
            found.conversation = conversation.name
            self._set_role(found.number, family(place.role) + SUMMARY_SUFFIX, conversation)
            found.role = conversation.calls[found.number]
            conversation.summary = found
        return AUXILIARY if conversation is None else conversation.name

    def restore(self, call: PriorCall, request: ModelRequest) -> None:
        """Enter a recorded call of an earlier process; `request` holds the messages that the call added."""
        if call.role == AUXILIARY:
            return
        conversation = self._by_name.get(call.conversation)
        key = "" if family(call.role) == MAIN else call.conversation
        place = Place(call.role, conversation, key, is_certain=True, is_provisional=not request.tools)
        if conversation is None:
            place = replace(place, conversation=self._open(request, place, call.conversation))
        self.begin(call.number, request, place, call.opening_key)

    def add(self, call: PriorCall) -> None:
        """Enter the reply of a call that is recorded now."""
        call.role = self.revised.get(call.number, call.role)
        conversation = self._by_name.get(call.conversation)
        if conversation is None:
            if len(call.reply["content"]) >= QUOTE_CHARS and not call.reply.get("tool_calls"):
                self._long_auxiliary.append(call)
            return
        self._recorded[call.number] = call
        if call.role.endswith(SUMMARY_SUFFIX):
            conversation.summary = call
        elif conversation.last is None or call.number > conversation.last.number:
            conversation.last, conversation.summary, conversation.followed = call, None, conversation.summary
        self._note_jobs(call.reply, conversation)

    def _open(self, request: ModelRequest, place: Place, name: str = "") -> Conversation:
        kind = family(place.role)
        if not name:
            number = sum(c.family == kind for c in self._by_name.values()) + 1
            name = MAIN if kind == MAIN and number == 1 else f"{kind}-{number}"
            name = place.key[:NAME_CHARS] if kind != MAIN and place.key else name
            while name in self._by_name:
                number += 1
                name = f"{kind}-{number}"
        conversation = Conversation(
            name=name,
            family=kind,
            is_certain=place.is_certain,
            tools=frozenset() if place.is_provisional else _names(request),
            tasks=tasks(request.messages),
            key=place.key,
            spoken=place.spoken,
            is_provisional=place.is_provisional,
        )
        self._all.append(conversation)
        self._by_name[name] = conversation
        if place.key:
            self._by_key[place.key] = conversation
        return conversation

    def _note_jobs(self, message: Message, conversation: Conversation | None) -> None:
        """Remember the jobs that a turn passes on. A conversation with one of them is a sub-agent, not main."""
        for job in jobs_of(message):
            if job in self._jobs:
                continue
            self._jobs[job] = conversation
            if conversation is None or not can_delegate(conversation.tools):
                continue
            for other in self._all:
                is_guessed_main = other is not conversation and other.is_guessed(MAIN) and not other.is_provisional
                if is_guessed_main and job in lines_of(other.tasks):
                    self._correct_delegation(conversation, other)

    def _correct_delegation(self, parent: Conversation, child: Conversation) -> None:
        """`parent` passed its job on to `child`, which was taken for main: `child` is a sub-agent.

        `parent` becomes main, unless another conversation is, or it is known to be a sub-agent itself.
        """
        self._set_family(child, SUB_AGENT)
        child.is_certain = True
        if parent.is_guessed(SUB_AGENT) and self._main() is None:
            self._set_family(parent, MAIN)

    def _set_family(self, conversation: Conversation, kind: str) -> None:
        conversation.family = kind
        for number, role in list(conversation.calls.items()):
            self._set_role(number, _role(kind, role), conversation)

    def _revise(self, number: int, role: str) -> None:
        conversation = self._of_call.get(number)
        self._guessed.discard(number)
        if conversation is None:
            return
        self._set_role(number, role, conversation)
        call = self._recorded.get(number)
        if role == AUXILIARY:
            del conversation.calls[number]
            if conversation.last is call:
                conversation.last = None
            if not conversation.calls and conversation in self._all:
                self._all.remove(conversation)
        elif family(role) != conversation.family:
            conversation.family, conversation.is_certain = family(role), True
        if call is not None and role.endswith(SUMMARY_SUFFIX) and conversation.last is call:
            conversation.summary = call
            conversation.last = next((c for c in call.turns() if c.conversation == conversation.name), None)
        elif call is not None and conversation.summary is call and not role.endswith(SUMMARY_SUFFIX):
            conversation.last, conversation.summary = call, None

    def _set_role(self, number: int, role: str, conversation: Conversation) -> None:
        conversation.calls[number] = self.revised[number] = role
        if (call := self._recorded.get(number)) is not None:
            call.role = role


def _role(kind: str, role: str) -> str:
    """`role` in another family: a summary stays a summary."""
    return kind + SUMMARY_SUFFIX if role.endswith(SUMMARY_SUFFIX) else kind


def _names(request: ModelRequest) -> frozenset[str]:
    return frozenset(tool["function"]["name"] for tool in request.tools)
