"""An execution's tree as an outline that a person can read: stretches of calls, what was drawn, and why not.

Pure: it works on plain call facts, so that it can be tested without a database (docs/algorithms.md §3, §7).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

#: Roles from the highest class to the lowest; auxiliary calls are never candidates.
ROLE_ORDER = ("main", "main-summary", "sub-agent", "sub-agent-summary")

#: Sentences for the reasons that selection records (agents.core.selection.Excluded).
REASONS = {
    "auxiliary": "auxiliary calls are recorded and never selected",
    "class_not_trained": "its role is not in the run's role_order",
    "quarantined": "quarantined: recorded, never trained",
    "unacknowledged": "the reply never reached the client whole, and no later call extends it",
    "too_long": "longer than context_tokens",
    "extended": "extended by a call of the same or a higher role",
    "same_path": "another call ends at the same token and stands for both",
    "nothing_trainable": "nothing trainable was left on its path",
    "over_j_max": "the J_max draws were used up",
}


@dataclass(frozen=True)
class CallFact:
    """What the outline needs of one call."""

    number: int
    parent_number: int | None
    role: str
    conversation: str
    state: str
    prefix_tokens: int
    input_tokens: int
    output_tokens: int
    branch_reason: str = ""

    @property
    def added_tokens(self) -> int:
        return self.input_tokens - self.prefix_tokens + self.output_tokens

    @property
    def path_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class Figures:
    """Size of what was recorded: tokens of the tree once each, and as the sum over calls of input and output."""

    calls: int
    unique_tokens: int
    total_tokens: int


def figures_of(calls: Sequence[CallFact]) -> Figures:
    return Figures(len(calls), sum(c.added_tokens for c in calls), sum(c.path_tokens for c in calls))


@dataclass
class Stretch:
    """Calls that continue one another, as one row. `calls` are in order; the last is where selection may draw."""

    role: str
    calls: list[CallFact]
    depth: int = 0
    draw: int | None = None
    why: str = ""
    trained_tokens: int = 0
    children: list[Stretch] = field(default_factory=list)

    @property
    def first(self) -> CallFact:
        return self.calls[0]

    @property
    def last(self) -> CallFact:
        return self.calls[-1]

    @property
    def added_tokens(self) -> int:
        return sum(call.added_tokens for call in self.calls)

    @property
    def sampled_tokens(self) -> int:
        return sum(call.output_tokens for call in self.calls)

    @property
    def label(self) -> str:
        first, last = self.first.number, self.last.number
        name = f"call {first}" if first == last else f"calls {first}–{last}"
        reason = self.first.branch_reason.replace("_", " ").replace("-", " ")
        return f"{name}, {reason}" if reason and self.first.parent_number is not None else name

    def holds(self, number: int) -> bool:
        return any(call.number == number for call in self.calls)


def build(calls: Sequence[CallFact]) -> list[Stretch]:
    """Stretches in reading order, each with its depth. Costs time in proportion to the calls.

    A call continues its parent when it has the same role and conversation and is the last such child; other children
    branch off. A sub-agent's conversation hangs below the main stretch that was open when it began.
    """
    by_number = {call.number: call for call in calls}
    continuation: dict[int, CallFact] = {}
    for call in calls:
        parent = by_number.get(call.parent_number) if call.parent_number is not None else None
        if parent and (parent.role, parent.conversation) == (call.role, call.conversation) and _lasts(call):
            continuation[parent.number] = call
    stretches: list[Stretch] = []
    stretch_of: dict[int, Stretch] = {}
    for call in calls:
        parent = by_number.get(call.parent_number) if call.parent_number is not None else None
        if parent and continuation.get(parent.number) is call and parent.number in stretch_of:
            stretch = stretch_of[parent.number]
            stretch.calls.append(call)
        else:
            stretch = Stretch(call.role, [call])
            stretches.append(stretch)
        stretch_of[call.number] = stretch
    return _nested(stretches, stretch_of)


def _lasts(call: CallFact) -> bool:
    """A call whose reply never arrived whole does not carry its conversation on."""
    return call.state not in ("failed", "truncated")


def _nested(stretches: list[Stretch], stretch_of: dict[int, Stretch]) -> list[Stretch]:
    roots: list[Stretch] = []
    open_main: Stretch | None = None
    for stretch in stretches:
        parent = stretch_of.get(stretch.first.parent_number) if stretch.first.parent_number is not None else None
        if parent is None and stretch.role != "main":
            parent = open_main
        if stretch.role == "main":
            open_main = stretch
        (parent.children if parent else roots).append(stretch)
    ordered: list[Stretch] = []
    waiting = [(stretch, 0) for stretch in reversed(roots)]
    while waiting:
        stretch, depth = waiting.pop()
        stretch.depth = depth
        ordered.append(stretch)
        waiting.extend((child, depth + 1) for child in reversed(stretch.children))
    return ordered


@dataclass(frozen=True)
class Selection:
    """What selection did with an execution: draws as stored, target counts per draw, and the limits it had.

    `record`: its agents.models.SelectionRecord, None before admission.
    """

    record: Any = None
    draws: Sequence[Any] = ()
    targets: dict[int, int] = field(default_factory=dict)
    j_max: int = 5
    context_tokens: int = 0
    voted: bool = True
    trained: bool = True
    admitted: bool = True
    #: Why each call that was passed over was passed over, as recorded at admission (agents.core.selection.Excluded).
    exclusions: dict[int, str] = field(default_factory=dict)


def explain(stretches: list[Stretch], selection: Selection) -> None:
    """Mark every stretch as drawn, or say why not."""
    chosen = {draw.chosen_call: draw for draw in selection.draws}
    offered: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for draw in selection.draws:
        for candidate in draw.candidates:
            offered[candidate["call"]].append((draw.number, float(candidate["probability"])))
    for stretch in stretches:
        hit = next((chosen[call.number] for call in stretch.calls if call.number in chosen), None)
        if hit is not None:
            probability = next((p for number, p in offered[hit.chosen_call] if number == hit.number), 1.0)
            stretch.draw, stretch.trained_tokens = hit.number, selection.targets.get(hit.number, 0)
            random = "unknown" if hit.random is None else f"{hit.random:.2f}"
            stretch.why = f"draw {hit.number + 1}: probability {probability:.2f}, random {random}"
            if hit.chosen_call != stretch.last.number and stretch.last.number in selection.exclusions:
                stretch.why += f"; up to call {hit.chosen_call}, then: {_recorded(stretch.last, selection, offered)}"
        else:
            stretch.why = _why_not(stretch, selection, offered)


def _recorded(call: CallFact, selection: Selection, offered: dict[int, list[tuple[int, float]]]) -> str:
    """The reason on record, with its numbers."""
    code = selection.exclusions[call.number]
    if code == "too_long":
        return f"{call.path_tokens:,} tokens, over context_tokens {selection.context_tokens:,}"
    if code == "over_j_max":
        if offered[call.number]:
            number, probability = max(offered[call.number])
            return f"not drawn: probability {probability:.2f} at draw {number + 1}"
        return f"J_max {selection.j_max} was reached before its role's turn"
    return REASONS.get(code, code)


def _why_not(stretch: Stretch, selection: Selection, offered: dict[int, list[tuple[int, float]]]) -> str:
    last = stretch.last
    if last.number in selection.exclusions:
        return _recorded(last, selection, offered)
    if stretch.role == "auxiliary":
        return REASONS["auxiliary"]
    if last.state in ("truncated", "failed"):
        return REASONS["unacknowledged"]
    if last.state == "quarantined":
        return REASONS["quarantined"]
    if not selection.trained:
        return "evaluation executions are never trained"
    if not selection.voted:
        return "the execution has no vote, so nothing of it is trained"
    if not selection.admitted:
        return "selection draws when the group is admitted to a batch"
    if selection.context_tokens and last.path_tokens > selection.context_tokens:
        return f"{last.path_tokens:,} tokens, over context_tokens {selection.context_tokens:,}"
    seen = [entry for call in stretch.calls for entry in offered[call.number]]
    if seen:
        number, probability = max(seen)
        return f"not drawn: probability {probability:.2f} at draw {number + 1}"
    if len(selection.draws) >= selection.j_max:
        return f"J_max {selection.j_max} was reached before its role's turn"
    if stretch.children and any(_rank(child.role) <= _rank(stretch.role) for child in stretch.children):
        return REASONS["extended"]
    return REASONS["nothing_trainable"]


def _rank(role: str) -> int:
    return ROLE_ORDER.index(role) if role in ROLE_ORDER else len(ROLE_ORDER)
