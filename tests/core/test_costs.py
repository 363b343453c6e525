"""agents.core.costs: each baseline is at least what selection costs, and each is what its name says."""

from dataclasses import replace

import numpy as np
from forests import executions, fold
from hypothesis import given
from hypothesis import strategies as st

from agents.core.costs import costs
from agents.core.roles import DEFAULT_ORDER
from agents.core.selection import Bounds, CallFacts, select
from agents.core.tree import Output, Tree

BOUNDS = Bounds(j_max=5, context_tokens=10_000, order=DEFAULT_ORDER)


def insert(tree: Tree, number: int, input_ids: list[int], output: list[int], role: str = "main") -> CallFacts:
    ids = np.array(output, np.int32)
    tree.insert(number, np.array(input_ids, np.int32), Output(ids, np.zeros(len(ids), np.float32), ids * 0))
    return CallFacts(role)


def test_the_baselines_of_a_small_tree_are_what_their_names_say() -> None:
    tree, facts = Tree(), {}
    facts[0] = insert(tree, 0, [1, 2], [3, 4])  # 4 tokens, extended by call 1
    facts[1] = insert(tree, 1, [1, 2, 3, 4, 5], [6])  # a leaf of 6
    facts[2] = insert(tree, 2, [1, 2, 3, 4, 7], [8, 9])  # a leaf of 7 that shares 4 with it
    facts[3] = insert(tree, 3, [20], [21], "sub-agent")  # a leaf of 2
    facts[4] = insert(tree, 4, [30], [31, 32], "auxiliary")
    one = replace(BOUNDS, j_max=1)
    drawn = select(tree, facts, one, "seed")
    found = costs(tree, facts, one, "seed", drawn)
    assert (found.every_call, found.every_leaf, found.uncapped) == (4 + 6 + 7 + 2, 6 + 7 + 2, 6 + 7 + 2)
    assert (found.num_leaves, found.num_selectable_tokens) == (3, 2 + 1 + 2 + 1)
    (trajectory,) = drawn.trajectories
    assert (found.selected, found.tree) == (trajectory.num_tokens, trajectory.num_tokens)
    assert found.num_selected_tokens == trajectory.num_targets
    all_of_it = costs(tree, facts, BOUNDS, "seed", select(tree, facts, BOUNDS, "seed"))
    assert (all_of_it.selected, all_of_it.tree, all_of_it.num_selected_tokens) == (15, 11, 6)


def test_a_leaf_whose_tokens_are_all_spent_costs_the_baseline_only() -> None:
    tree, facts = Tree(), {}
    facts[0] = insert(tree, 0, [1, 2], [3])
    facts[1] = insert(tree, 1, [1, 2, 3, 4], [], "main")  # its path has only the token of call 0
    facts[2] = insert(tree, 2, [1, 2, 3, 5], [6])
    found = costs(tree, facts, BOUNDS, "s", select(tree, facts, BOUNDS, "s"))
    assert found.every_leaf == 4 + 5
    assert found.uncapped == found.selected
    assert found.selected in (5, 4 + 5)  # both are drawn only when the poorer one comes first


def test_trajectories_that_are_not_trained_are_not_counted() -> None:
    tree, facts = Tree(), {}
    facts[0] = insert(tree, 0, [1], [2])
    facts[1] = insert(tree, 1, [5, 6], [7, 8])
    drawn = select(tree, facts, BOUNDS, "s")
    kept = costs(tree, facts, BOUNDS, "s", drawn, trained={0})
    assert kept.selected == drawn.trajectories[0].num_tokens
    assert kept.num_selected_tokens == drawn.trajectories[0].num_targets
    assert costs(tree, facts, BOUNDS, "s", drawn, trained=[]).selected == 0


@given(executions(), st.data())
def test_no_baseline_is_cheaper_than_selection(calls, data) -> None:
    tree = fold(calls)
    roles = st.sampled_from([*DEFAULT_ORDER, "auxiliary"])
    facts = {c.number: CallFacts(data.draw(roles), data.draw(st.booleans()), not c.trained) for c in calls}
    bounds = Bounds(data.draw(st.integers(1, 4)), data.draw(st.integers(1, 20)), DEFAULT_ORDER)
    found = costs(tree, facts, bounds, "s", select(tree, facts, bounds, "s"))
    assert found.tree <= found.selected <= found.uncapped <= found.every_leaf <= found.every_call
    assert found.num_selected_tokens <= found.num_selectable_tokens
