"""agents.core.tree against a token-by-token model (docs/algorithms.md §3)."""

import numpy as np
import pytest
from forests import MadeCall, executions, fold, fold_deltas, trie
from hypothesis import given

from agents.core.tree import Output, Tree, common_prefix


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def output(*values: int, logprob: float = -1.0, version: int = 0, trained: bool = True) -> Output:
    n = len(values)
    return Output(ids(*values), np.full(n, logprob, np.float32), np.full(n, version, np.int32), trained)


def dump(tree: Tree) -> list[tuple]:
    numbers = {node: number for number, node in enumerate(tree.nodes())}
    rows = []
    for node in tree.nodes():
        columns = (node.ids, node.sampled, node.logprobs, node.versions, node.samplers)
        rows.append((numbers.get(node.parent, -1), node.depth, node.call, *(column.tolist() for column in columns)))
    return rows


@given(executions())
def test_every_path_reads_back_with_its_flags_logprobs_and_versions(calls: list[MadeCall]) -> None:
    tree, model = fold(calls), trie(calls)
    for call in calls:
        tokens = tree.path_tokens(call.number)
        assert tuple(tokens.ids.tolist()) == call.path
        expected = [model[call.path[:end]] for end in range(1, len(call.path) + 1)]
        assert tokens.sampled.tolist() == [token.sampled for token in expected]
        assert tokens.logprobs.tolist() == [token.logprob for token in expected]
        assert tokens.versions.tolist() == [token.version for token in expected]
        assert tokens.samplers.tolist() == [token.sampler for token in expected]
        assert tree.ends[call.number].length == len(call.path)


@given(executions())
def test_each_distinct_token_is_stored_once(calls: list[MadeCall]) -> None:
    tree, model = fold(calls), trie(calls)
    assert tree.num_tokens == len(model)
    assert sum(node.num_sampled for node in tree.nodes()) == sum(token.sampled for token in model.values())


@given(executions())
def test_nodes_form_a_tree_whose_siblings_start_with_different_tokens(calls: list[MadeCall]) -> None:
    tree = fold(calls)
    for node in [tree.root, *tree.nodes()]:
        assert {child.parent for child in node.children.values()} <= {node}
        assert all(int(child.ids[0]) == first for first, child in node.children.items())
        assert all(child.depth == node.end and len(child.ids) for child in node.children.values())
    for call in calls:
        assert tree.last_node(call.number).end == len(call.path)


@given(executions())
def test_whole_inputs_and_deltas_give_the_same_tree(calls: list[MadeCall]) -> None:
    assert dump(fold(calls)) == dump(fold_deltas(calls))


@given(executions())
def test_naming_the_parent_does_not_change_the_tree(calls: list[MadeCall]) -> None:
    blind = Tree()
    for call in calls:
        blind.insert(call.number, np.array(call.input_ids, np.int32), call.output())
    assert dump(blind) == dump(fold(calls))


def test_context_that_a_call_samples_becomes_sampled_with_that_calls_logprobs() -> None:
    tree = Tree()
    tree.insert(0, ids(1, 2, 3, 4), output(5))
    tree.insert(1, ids(1, 2), output(3, 4, logprob=-2.0, version=7))
    tokens = tree.path_tokens(0)
    assert tokens.sampled.tolist() == [False, False, True, True, True]
    assert tokens.logprobs.tolist() == [0.0, 0.0, -2.0, -2.0, -1.0]
    assert tokens.versions.tolist() == [-1, -1, 7, 7, 0]
    assert tokens.samplers.tolist() == [-1, -1, 1, 1, 0]


def test_two_calls_that_sample_the_same_ids_share_them_and_the_first_logprobs_stay() -> None:
    tree = Tree()
    tree.insert(0, ids(1), output(2, 3, logprob=-1.0))
    tree.insert(1, ids(1), output(2, 3, logprob=-9.0))
    assert tree.num_tokens == 3
    assert tree.path_tokens(1).logprobs.tolist() == [0.0, -1.0, -1.0]
    assert tree.last_node(0) is tree.last_node(1)


def test_the_output_of_a_quarantined_call_is_context() -> None:
    tree = Tree()
    tree.insert(0, ids(1), output(2, 3, trained=False))
    tree.insert(1, ids(1, 2, 3), output(4))
    assert tree.path_tokens(1).sampled.tolist() == [False, False, False, True]


def test_a_tree_does_not_change_when_its_callers_arrays_do() -> None:
    tree, sampled = Tree(), output(5)
    new = ids(1, 2)
    tree.insert_delta(0, None, 0, new, sampled)
    new[:], sampled.ids[:] = 0, 0
    assert tree.path_tokens(0).ids.tolist() == [1, 2, 5]


@pytest.mark.parametrize(
    ("parent", "prefix", "message"),
    [(None, 2, "no parent"), (9, 0, "not in the tree"), (0, 4, "a path of 3"), (0, 0, "output but no input")],
)
def test_a_call_that_cannot_be_placed_is_refused(parent: int | None, prefix: int, message: str) -> None:
    tree = Tree()
    tree.insert(0, ids(1, 2), output(3))
    with pytest.raises(ValueError, match=message):
        tree.insert_delta(1, parent, prefix, ids(), output(5))


def test_a_call_number_can_be_used_once() -> None:
    tree = Tree()
    tree.insert(0, ids(1), output(3))
    with pytest.raises(ValueError, match="already in the tree"):
        tree.insert(0, ids(1), output(3))


def test_common_prefix_finds_a_difference_on_either_side_of_a_block_edge() -> None:
    a = np.zeros(140_000, np.int32)
    for at in (0, 1, 65_535, 65_536, 65_537, 131_072, 139_999):
        b = a.copy()
        b[at] = 1
        assert common_prefix(a, b) == at
    assert common_prefix(a, a[:20_000]) == 20_000
