"""Which trajectories of an execution are trained: at most J_max leaves, each token at most once.

See docs/algorithms.md §7.

Everything here can be replayed: the result depends on the tree, the facts about the calls, the seed and the bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from agents.core import draws
from agents.core.roles import Role, ranks
from agents.core.tree import Node, Tree

Run = tuple[int, int]


class Excluded(StrEnum):
    """Why a call is no trajectory."""

    AUXILIARY = "auxiliary"
    CLASS_NOT_TRAINED = "class_not_trained"
    QUARANTINED = "quarantined"
    UNACKNOWLEDGED = "unacknowledged"  # its client left and no later call extends it
    TOO_LONG = "too_long"
    EXTENDED = "extended"  # a later call of the same or a higher class has its path
    SAME_PATH = "same_path"  # another call ends at the same token
    NOTHING_TRAINABLE = "nothing_trainable"  # every sampled token on its path is a target elsewhere, or there is none
    OVER_J_MAX = "over_j_max"  # it could have been drawn, but the draws were used up


@dataclass(frozen=True)
class CallFacts:
    """What selection must know about a call besides its place in the tree."""

    role: str
    acknowledged: bool = True
    quarantined: bool = False


@dataclass(frozen=True)
class Bounds:
    """`order`: role classes, highest first."""

    j_max: int
    context_tokens: int
    order: Sequence[str]


@dataclass(frozen=True)
class Candidate:
    call: int
    count: int
    probability: float


@dataclass(frozen=True)
class DrawRecord:
    """One draw: the leaves of the highest class that had any, in order of call number, and which one it was."""

    number: int
    role: str
    candidates: tuple[Candidate, ...]
    random: float
    chosen_call: int


@dataclass(frozen=True)
class Selected:
    """A trajectory: the path of `call`; `targets` are its trained positions as [start, end) runs."""

    number: int
    call: int
    role: str
    num_tokens: int
    targets: tuple[Run, ...]

    @property
    def num_targets(self) -> int:
        return sum(end - start for start, end in self.targets)


@dataclass(frozen=True)
class Selection:
    draws: tuple[DrawRecord, ...]
    trajectories: tuple[Selected, ...]
    exclusions: dict[int, Excluded]

    @property
    def num_targets(self) -> int:
        """T(e) of docs/algorithms.md §8."""
        return sum(trajectory.num_targets for trajectory in self.trajectories)


def select(tree: Tree, calls: Mapping[int, CallFacts], bounds: Bounds, seed: str) -> Selection:
    """Draw trajectories. `calls` has the facts of every call of the tree."""
    rank = ranks(bounds.order)
    leaves, exclusions = find_leaves(tree, calls, bounds)
    trainable = {node: node.num_sampled for node in tree.nodes()}
    spent: set[Node] = set()
    records: list[DrawRecord] = []
    selected: list[Selected] = []
    while leaves:
        counts = _counts(tree, leaves, trainable)
        for call in [call for call in leaves if counts[call] == 0]:
            exclusions[call] = Excluded.NOTHING_TRAINABLE
        leaves = [call for call in leaves if counts[call]]
        if not leaves:
            break
        if len(records) == bounds.j_max:
            exclusions.update(dict.fromkeys(leaves, Excluded.OVER_J_MAX))
            break
        role = min((calls[call].role for call in leaves), key=rank.__getitem__)
        record = _draw(len(records), role, [(call, counts[call]) for call in leaves if calls[call].role == role], seed)
        path = tree.last_node(record.chosen_call).path()
        records.append(record)
        selected.append(
            Selected(
                record.number,
                record.chosen_call,
                role,
                tree.ends[record.chosen_call].length,
                _target_runs([node for node in path if node not in spent]),
            )
        )
        spent.update(path)
        trainable.update(dict.fromkeys(path, 0))
        leaves.remove(record.chosen_call)
    return Selection(tuple(records), tuple(selected), exclusions)


def find_leaves(tree: Tree, calls: Mapping[int, CallFacts], bounds: Bounds) -> tuple[list[int], dict[int, Excluded]]:
    """Calls that selection may draw, in order of number, and why the others may not.

    A call is extended by another if its path is a proper prefix of the other's. Only a call that could itself be drawn
    extends: one that does not fit, or that is never selected, must not hide another's tokens. Of calls that end at the
    same token, the one of the highest class, then the first, stands for all.
    """
    rank = ranks(bounds.order)
    exclusions: dict[int, Excluded] = {}
    ends_at: dict[Node, list[int]] = {}
    followed = _followed(tree, calls)
    for call in sorted(tree.ends):
        reason = _own_reason(tree, call, calls[call], bounds, rank, followed)
        if reason is not None:
            exclusions[call] = reason
        else:
            ends_at.setdefault(tree.last_node(call), []).append(call)
    leaves: list[int] = []
    best_below: dict[Node, int] = {}  # highest class (lowest rank) that ends strictly below
    for node in reversed([tree.root, *tree.nodes()]):
        here = sorted(ends_at.get(node, []), key=lambda call: (rank[calls[call].role], call))
        below = best_below.get(node, len(rank))
        for position, call in enumerate(here):
            if below <= rank[calls[call].role]:
                exclusions[call] = Excluded.EXTENDED
            elif position:
                exclusions[call] = Excluded.SAME_PATH
            else:
                leaves.append(call)
        if node.parent is not None:
            best = min([below, *(rank[calls[call].role] for call in here)])
            best_below[node.parent] = min(best, best_below.get(node.parent, len(rank)))
    return sorted(leaves), exclusions


def _own_reason(
    tree: Tree, call: int, facts: CallFacts, bounds: Bounds, rank: Mapping[str, int], followed: set[int]
) -> Excluded | None:
    if facts.role == Role.AUXILIARY:
        return Excluded.AUXILIARY
    if facts.role not in rank:
        return Excluded.CLASS_NOT_TRAINED
    if facts.quarantined:
        return Excluded.QUARANTINED
    if not facts.acknowledged and call not in followed:
        return Excluded.UNACKNOWLEDGED
    if tree.ends[call].length > bounds.context_tokens:
        return Excluded.TOO_LONG
    return None


def _followed(tree: Tree, calls: Mapping[int, CallFacts]) -> set[int]:
    """Unacknowledged calls whose path stands in the input of a later call: the client did see them (§2.6)."""
    found: set[int] = set()
    for call in [call for call, facts in calls.items() if not facts.acknowledged and call in tree.ends]:
        node = tree.last_node(call)
        for later, end in tree.ends.items():
            if later <= call or calls[later].role == Role.AUXILIARY or end.num_input < tree.ends[call].length:
                continue
            if node is tree.root or node in tree.last_node(later).path():
                found.add(call)
                break
    return found


def _counts(tree: Tree, leaves: Sequence[int], trainable: Mapping[Node, int]) -> dict[int, int]:
    """Trainable tokens on the path of each leaf; `trainable` has them by node, parents first."""
    above = {tree.root: 0}
    for node, count in trainable.items():
        assert node.parent is not None
        above[node] = above[node.parent] + count
    return {call: above[tree.last_node(call)] for call in leaves}


def _draw(number: int, role: str, counts: Sequence[tuple[int, int]], seed: str) -> DrawRecord:
    total = sum(count for _, count in counts)
    random = draws.uniform(seed, number)
    position = draws.choose(random, [count for _, count in counts])
    candidates = tuple(Candidate(call, count, count / total) for call, count in counts)
    return DrawRecord(number, role, candidates, random, counts[position][0])


def _target_runs(nodes: Sequence[Node]) -> tuple[Run, ...]:
    """Sampled tokens of `nodes`, which are in path order, as runs of path positions."""
    runs: list[Run] = []
    for node in nodes:
        edges = np.flatnonzero(np.diff(node.sampled.astype(np.int8), prepend=0, append=0)) + node.depth
        for start, end in edges.reshape(-1, 2).tolist():
            if runs and runs[-1][1] == start:
                runs[-1] = (runs[-1][0], end)
            else:
                runs.append((start, end))
    return tuple(runs)
