"""agents.core.fold: recorded bytes become the tree, and a record that cannot be trusted harms no other."""

import numpy as np
import pytest
from forests import MadeCall, executions, fold_deltas
from hypothesis import given
from hypothesis import strategies as st

from agents.core.codec import CallDelta, encode_call
from agents.core.fold import EncodedCall, fold, spread_versions
from agents.core.tree import Tree


def recorded(call: MadeCall, **changes: object) -> EncodedCall:
    output = call.output()
    delta = CallDelta(np.array(call.input_ids[call.prefix :], np.int32), output.ids, output.logprobs)
    values = {
        "number": call.number,
        "parent": call.parent,
        "prefix_tokens": call.prefix,
        "tokens": encode_call(delta),
        "versions": [[call.version, 0, len(output.ids)]] if len(output.ids) else [],
        "role": "main",
        "acknowledged": True,
        "quarantined": not call.trained,
    }
    return EncodedCall(**(values | changes))


def paths(tree: Tree) -> dict[int, list]:
    found = {}
    for call in tree.ends:
        tokens = tree.path_tokens(call)
        columns = (tokens.ids, tokens.sampled, tokens.logprobs, tokens.versions, tokens.samplers)
        found[call] = [column.tolist() for column in columns]
    return found


@given(executions(), st.randoms(use_true_random=False))
def test_recorded_calls_fold_to_the_tree_of_the_calls_whatever_order_they_are_read_in(calls, random) -> None:
    rows = [recorded(call) for call in calls]
    random.shuffle(rows)
    folded = fold(rows)
    assert folded.unusable == {}
    assert paths(folded.tree) == paths(fold_deltas(calls))
    assert {call for call, facts in folded.facts.items() if facts.quarantined} == {
        call.number for call in calls if not call.trained
    }


@given(executions(max_calls=6).filter(bool), st.data())
def test_an_unreadable_call_takes_only_those_that_extend_it_with_it(calls, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, len(calls) - 1))
    folded = fold(recorded(call, **({"tokens": b"\x01torn"} if call.number == bad else {})) for call in calls)
    lost = {bad}
    for call in calls:
        if call.parent in lost:
            lost.add(call.number)
    assert set(folded.unusable) == lost
    for call in calls:
        if call.number not in lost:
            assert tuple(folded.tree.path_tokens(call.number).ids.tolist()) == call.path


CALL = MadeCall(0, (1, 2), (3, 4), 5, True, None, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"versions": []},
        {"versions": [[5, 0, 1]]},
        {"versions": [[5, 0, 1], [6, 0, 2]]},
        {"versions": [[-1, 0, 2]]},
        {"versions": [[5, 0]]},
        {"tokens": encode_call(CallDelta(np.int32([1, 2]), np.int32([3, 4]), np.float32([0, np.nan])))},
    ],
)
def test_a_call_whose_numbers_are_not_whole_is_context_and_not_trained(changes: dict[str, object]) -> None:
    folded = fold([recorded(CALL, **changes)])
    assert folded.facts[0].quarantined
    assert folded.tree.path_tokens(0).ids.tolist() == [1, 2, 3, 4]
    assert not folded.tree.path_tokens(0).sampled.any()


def test_versions_of_a_call_that_spans_an_update_are_kept_token_by_token() -> None:
    versions = spread_versions([[3, 0, 2], [4, 2, 5]], 5)
    assert versions is not None
    assert versions.tolist() == [3, 3, 4, 4, 4]
