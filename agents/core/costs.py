"""What the trajectories of an execution cost to train, beside what other ways of training it would cost.

Costs are in tokens that go through forward and backward once. Each baseline trains at least the same targets
(docs/algorithms.md §3, §7); a baseline's name says what it does, so that a saving is always against something named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from agents.core.selection import Bounds, CallFacts, Selection, find_leaves, select
from agents.core.tree import Node, Tree


@dataclass(frozen=True)
class Costs:
    """`every_call`: each call that may be trained, as its own full sequence. `every_leaf`: each leaf with something
    trainable on its path, as its own full sequence. `uncapped`: the trajectories that selection draws without J_max.
    `selected`: the trajectories that are trained. `tree`: each unique token of those trajectories once.
    """

    num_leaves: int
    num_selectable_tokens: int
    num_selected_tokens: int
    every_call: int
    every_leaf: int
    uncapped: int
    selected: int
    tree: int


NO_COSTS = Costs(0, 0, 0, 0, 0, 0, 0, 0)


def costs(
    tree: Tree,
    calls: Mapping[int, CallFacts],
    bounds: Bounds,
    seed: str,
    selection: Selection,
    trained: Collection[int] | None = None,
) -> Costs:
    """Costs of what `selection` drew within `bounds`. `trained`: numbers of the trajectories that are trained, where
    those are not all."""
    leaves = find_leaves(tree, calls, bounds)[0]
    leaves = [call for call in leaves if any(node.num_sampled for node in tree.last_node(call).path())]
    alone = {*leaves, *(call for call in tree.ends if _may_be_trained(tree, call, calls[call], bounds))}
    uncapped = select(tree, calls, replace(bounds, j_max=max(1, len(leaves))), seed)
    kept = [t for t in selection.trajectories if trained is None or t.number in trained]
    return Costs(
        num_leaves=len(leaves),
        num_selectable_tokens=sum(node.num_sampled for node in _union(tree, leaves)),
        num_selected_tokens=sum(t.num_targets for t in kept),
        every_call=sum(tree.ends[call].length for call in alone),
        every_leaf=sum(tree.ends[call].length for call in leaves),
        uncapped=sum(t.num_tokens for t in uncapped.trajectories),
        selected=sum(t.num_tokens for t in kept),
        tree=sum(len(node.ids) for node in _union(tree, [t.call for t in kept])),
    )


def _may_be_trained(tree: Tree, call: int, facts: CallFacts, bounds: Bounds) -> bool:
    """A call with a reply that arrived, of a class that is trained, and that fits the context."""
    end = tree.ends[call]
    fit = end.num_input < end.length <= bounds.context_tokens
    return fit and facts.role in bounds.order and facts.acknowledged and not facts.quarantined


def _union(tree: Tree, calls: Collection[int]) -> set[Node]:
    return {node for call in calls for node in tree.last_node(call).path()}
