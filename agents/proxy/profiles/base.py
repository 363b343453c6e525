"""Profiles: declarative tables that map a harness's requests to roles and conversations (algorithms.md §4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.proxy.canonical import ModelRequest

MAIN, SUB_AGENT, AUXILIARY = "main", "sub-agent", "auxiliary"
SUMMARY_SUFFIX = "-summary"


@dataclass(frozen=True, slots=True)
class Features:
    """What a rule may look at."""

    headers: Mapping[str, str]
    system: str
    tools: tuple[str, ...]
    #: Texts of the last message that is not a system one, when it is a user's; else "".
    last_user: str
    traits: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class When:
    """All of what is given must hold; a tuple holds when one of its entries does."""

    header: str = ""
    trait: str = ""
    without_tools: bool = False
    system_starts: tuple[str, ...] = ()
    last_user_starts: tuple[str, ...] = ()
    last_user_contains: tuple[str, ...] = ()

    def holds(self, features: Features) -> bool:
        return (
            (not self.header or self.header in features.headers)
            and (not self.trait or bool(features.traits.get(self.trait)))
            and (not self.without_tools or not features.tools)
            and (not self.system_starts or features.system.startswith(self.system_starts))
            and (not self.last_user_starts or _line_starts(features.last_user, self.last_user_starts))
            and (not self.last_user_contains or any(t in features.last_user for t in self.last_user_contains))
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """`roles`: the first row that holds gives the role. `otherwise` None leaves it to the shape of the traffic."""

    name: str
    roles: tuple[tuple[str, When], ...] = ()
    otherwise: str | None = MAIN
    #: Holds for a call that compacts the history of its conversation.
    summary: When | None = None
    #: Headers whose values together name a conversation of a role other than main.
    conversation_headers: tuple[str, ...] = ()
    #: False: the harness repeats a failed call without saying so (algorithms.md §2.4).
    marks_retries: bool = True

    def role(self, features: Features) -> str | None:
        """None: the table does not say."""
        role = next((role for role, when in self.roles if when.holds(features)), self.otherwise)
        if role not in (None, AUXILIARY) and self.summary is not None and self.summary.holds(features):
            return f"{role}{SUMMARY_SUFFIX}"
        return role

    def conversation(self, features: Features) -> str:
        """Name of the conversation by the harness's own ids; "" when it gives none."""
        values = [features.headers.get(name, "") for name in self.conversation_headers]
        return ":".join(values) if values and all(values) else ""


def family(role: str) -> str:
    """A role without the mark of a summary: main-summary belongs to main."""
    return role.removesuffix(SUMMARY_SUFFIX)


def features(request: ModelRequest, headers: Mapping[str, str]) -> Features:
    system = ""
    if request.messages and request.messages[0]["role"] == "system":
        system = request.messages[0]["content"]
    last = next((m for m in reversed(request.messages) if m["role"] != "system"), None)
    return Features(
        headers=headers,
        system=system,
        tools=tuple(tool["function"]["name"] for tool in request.tools),
        last_user=last["content"] if last is not None and last["role"] == "user" else "",
        traits=request.traits,
    )


def _line_starts(text: str, heads: tuple[str, ...]) -> bool:
    return text.startswith(heads) or any(f"\n{head}" in text for head in heads)
