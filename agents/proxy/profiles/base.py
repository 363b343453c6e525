"""Profiles: declarative tables that map a harness's requests to roles and conversations (docs/algorithms.md §4).

A profile says only what its harness shows for certain: headers, marks in the body, heads of prompts. The rest is read
off the traffic (`agents.proxy.conversations`), so roles are found even for another version of a harness, or without its
headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.proxy import canonical
from agents.proxy.canonical import Message, ModelRequest

MAIN, SUB_AGENT, AUXILIARY = "main", "sub-agent", "auxiliary"
SUMMARY_SUFFIX = "-summary"

#: Rules look at so many first characters of a system prompt and of the first instruction.
_HEAD_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Features:
    """What a rule may look at.

    `facts`: headers by their lower-case names, and the body's marks; fields of a JSON header `h` stand as `h.field`.
    """

    facts: Mapping[str, str]
    system: str
    tools: tuple[str, ...]
    #: Text of the last message that is not a system one, when it is a user's; else "".
    last_user: str
    traits: Mapping[str, object]
    path: str = ""
    first_user: str = ""


@dataclass(frozen=True, slots=True)
class When:
    """A condition. Every field that is set must hold; a tuple of alternatives holds if one of them does."""

    fact: tuple[str, ...] = ()
    no_fact: tuple[str, ...] = ()
    #: (name of a fact, text that its value contains, in any case)
    fact_says: tuple[tuple[str, str], ...] = ()
    trait: str = ""
    path_ends: tuple[str, ...] = ()
    without_tools: bool = False
    with_tools: bool = False
    tools_any: tuple[str, ...] = ()
    tools_all: tuple[str, ...] = ()
    system_starts: tuple[str, ...] = ()
    system_says: tuple[str, ...] = ()
    first_user_says: tuple[str, ...] = ()
    last_user_starts: tuple[str, ...] = ()
    last_user_says: tuple[str, ...] = ()

    def holds(self, features: Features) -> bool:
        facts, tools = features.facts, features.tools
        return (
            (not self.fact or any(facts.get(name) for name in self.fact))
            and not any(facts.get(name) for name in self.no_fact)
            and (not self.fact_says or any(says in facts.get(n, "").lower() for n, says in self.fact_says))
            and (not self.trait or bool(features.traits.get(self.trait)))
            and (not self.path_ends or features.path.endswith(self.path_ends))
            and not (self.without_tools and tools)
            and not (self.with_tools and not tools)
            and (not self.tools_any or any(tool in tools for tool in self.tools_any))
            and all(tool in tools for tool in self.tools_all)
            and (not self.system_starts or _line_starts(features.system[:_HEAD_CHARS], self.system_starts))
            and _says(features.system[:_HEAD_CHARS], self.system_says)
            and _says(features.first_user[:_HEAD_CHARS], self.first_user_says)
            and (not self.last_user_starts or _line_starts(features.last_user, self.last_user_starts))
            and _says(features.last_user, self.last_user_says)
        )


@dataclass(frozen=True, slots=True)
class Key:
    """How a harness names a conversation: by the values of some facts. Each entry lists the names that one may have."""

    facts: tuple[tuple[str, ...], ...]

    def of(self, features: Features) -> str:
        """The name; "" if a fact is missing under all its names."""
        values = [next((v for name in names if (v := features.facts.get(name))), "") for names in self.facts]
        return ":".join(values) if all(values) else ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Evidence that a request comes from this harness. `weight`: the share of doubt that it removes, in (0, 1)."""

    weight: float
    when: When


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a profile says of a request. `role` None: it does not say. `is_summary`: the request certainly compacts."""

    role: str | None
    is_summary: bool
    key: str


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of one harness. The first row of `roles` whose condition holds gives the role.

    If none holds, `otherwise` does. Where that is None, the role is read off the traffic.
    """

    name: str
    roles: tuple[tuple[str, When], ...] = ()
    otherwise: str | None = None
    #: A call compacts its conversation if one of these holds.
    summaries: tuple[When, ...] = ()
    #: How it names conversations: the first key that the request has counts.
    keys: tuple[Key, ...] = ()
    #: False: the harness repeats a failed call without saying so (docs/algorithms.md §2.4).
    marks_retries: bool = True
    #: How its traffic is recognised.
    marks: tuple[Mark, ...] = ()
    #: The harness has one conversation and nothing else.
    is_single: bool = False
    #: Nothing is known of this harness, so weak signs count too.
    is_open: bool = False

    def judge(self, features: Features) -> Verdict:
        key = next((k for key in self.keys if (k := key.of(features))), "")
        is_summary = any(when.holds(features) for when in self.summaries)
        for role, when in self.roles:
            if not (is_summary and role == AUXILIARY) and when.holds(features):
                return Verdict(role, is_summary and role != AUXILIARY, key)
        return Verdict(self.otherwise, is_summary, key)

    def likeness(self, features: Features) -> float:
        """How certain it is that a request comes from this harness, in [0, 1)."""
        doubt = 1.0
        for mark in self.marks:
            if mark.when.holds(features):
                doubt *= 1.0 - mark.weight
        return 1.0 - doubt


def family(role: str) -> str:
    """A role without its suffix: that of main-summary is main."""
    return role.removesuffix(SUMMARY_SUFFIX)


def facts_of(headers: Mapping[str, str], marks: Mapping[str, str]) -> dict[str, str]:
    """Headers and marks of the body by name. If the body repeats a header that is there, the header itself counts."""
    facts: dict[str, str] = {}
    for name, value in marks.items():
        facts[name.removeprefix("client_metadata.")] = value
    for name, value in headers.items():
        name = name.lower()
        facts[name] = value
        if value.startswith("{"):
            canonical.flatten(name, value, facts)
    return facts


def features(request: ModelRequest, headers: Mapping[str, str], path: str = "") -> Features:
    messages = request.messages
    last = next((m for m in reversed(messages) if m["role"] != "system"), None)
    marks = request.traits.get("marks")
    return Features(
        facts=facts_of(headers, marks if isinstance(marks, Mapping) else {}),
        system=system_of(messages),
        tools=tuple(tool["function"]["name"] for tool in request.tools),
        last_user=last["content"] if last is not None and last["role"] == "user" else "",
        traits=request.traits,
        path=path,
        first_user=next((m["content"] for m in messages if m["role"] == "user"), ""),
    )


def system_of(messages: list[Message]) -> str:
    return messages[0]["content"] if messages and messages[0]["role"] == "system" else ""


def _line_starts(text: str, heads: tuple[str, ...]) -> bool:
    return text.startswith(heads) or any(f"\n{head}" in text for head in heads)


def _says(text: str, any_of: tuple[str, ...]) -> bool:
    lower = text.lower() if any_of else ""
    return not any_of or any(words in lower for words in any_of)
