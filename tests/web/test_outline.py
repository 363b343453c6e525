"""The outline of a tree, on plain facts: stretches, nesting, and the reason beside everything that was not drawn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.web.outline import CallFact, Selection, build, explain


def _call(number: int, parent: int | None = None, role: str = "main", **values: Any) -> CallFact:
    facts = {"conversation": "c", "state": "complete", "prefix_tokens": 0, "input_tokens": 10, "output_tokens": 5}
    return CallFact(number, parent, role, **(facts | values))


def _draw(number: int, chosen: int, **candidates: float) -> Any:
    rows = [{"call": int(name[1:]), "count": 5, "probability": p} for name, p in candidates.items()]
    return SimpleNamespace(number=number, chosen_call=chosen, candidates=rows, random=0.4)


def _whys(calls: list[CallFact], selection: Selection) -> dict[int, str]:
    stretches = build(calls)
    explain(stretches, selection)
    return {stretch.last.number: stretch.why for stretch in stretches}


def test_calls_that_continue_one_another_are_one_row() -> None:
    (row,) = build([_call(0), _call(1, 0), _call(2, 1)])
    assert (row.label, row.depth, [call.number for call in row.calls]) == ("calls 0–2", 0, [0, 1, 2])
    assert (row.added_tokens, row.sampled_tokens) == (45, 15)


def test_a_sibling_branches_off_and_the_last_child_carries_the_conversation_on() -> None:
    rows = build([_call(0), _call(1, 0, state="truncated", branch_reason="retry"), _call(2, 0), _call(3, 2)])
    assert [(row.label, row.depth) for row in rows] == [("calls 0–3", 0), ("call 1, retry", 1)]


def test_a_sub_agent_hangs_below_the_main_stretch_that_was_open() -> None:
    rows = build([
        _call(0), _call(1, None, "sub-agent", conversation="a"), _call(2, 1, "sub-agent", conversation="a"),
        _call(3, None, conversation="m2"), _call(4, None, "sub-agent", conversation="b"),
    ])  # fmt: skip
    assert [(row.first.number, row.depth) for row in rows] == [(0, 0), (1, 1), (3, 0), (4, 1)]


def test_reasons_name_the_rule_that_left_a_leaf_out() -> None:
    calls = [
        _call(0), _call(1, None, "auxiliary", conversation="t"), _call(2, None, "sub-agent", conversation="a"),
        _call(3, None, "sub-agent", conversation="b", state="quarantined"),
        _call(4, None, "sub-agent", conversation="d", input_tokens=2000),
        _call(5, None, "sub-agent", conversation="e"),
    ]  # fmt: skip
    draws = [_draw(0, 0, c0=1.0), _draw(1, 5, c2=0.11, c5=0.89)]
    whys = _whys(calls, Selection(draws=draws, targets={0: 5, 1: 5}, j_max=5, context_tokens=1024))
    assert whys[0] == "draw 1: probability 1.00, random 0.40"
    assert whys[1] == "auxiliary calls are recorded and never selected"
    assert whys[2] == "not drawn: probability 0.11 at draw 2"
    assert whys[3] == "quarantined: recorded, never trained"
    assert whys[4] == "2,005 tokens, over context_tokens 1,024"


def test_the_whole_execution_can_be_the_reason() -> None:
    calls = [_call(0)]
    assert _whys(calls, Selection(trained=False))[0] == "evaluation executions are never trained"
    assert _whys(calls, Selection(voted=False))[0] == "the execution has no vote, so nothing of it is trained"
    assert _whys(calls, Selection(admitted=False))[0] == "selection draws when the group is admitted to a batch"
    full = Selection(draws=[_draw(i, 9) for i in range(2)], j_max=2)
    assert _whys(calls, full)[0] == "J_max 2 was reached before its role's turn"


@st.composite
def _forests(draw: Any) -> list[CallFact]:
    count = draw(st.integers(0, 40))
    roles = st.sampled_from(["main", "main-summary", "sub-agent", "auxiliary"])
    states = st.sampled_from(["complete", "complete", "truncated"])
    return [
        _call(
            number,
            draw(st.none() | st.integers(0, number - 1)) if number else None,
            draw(roles),
            conversation=draw(st.sampled_from("abc")),
            state=draw(states),
        )
        for number in range(count)
    ]


@given(_forests())
def test_every_call_stands_in_exactly_one_row_and_below_its_parent(calls: list[CallFact]) -> None:
    rows = build(calls)
    numbers = [call.number for row in rows for call in row.calls]
    assert sorted(numbers) == [call.number for call in calls]
    place = {call.number: i for i, row in enumerate(rows) for call in row.calls}
    for call in calls:
        if call.parent_number is not None:
            above, here = rows[place[call.parent_number]], rows[place[call.number]]
            assert above is here or (here.depth == above.depth + 1 and place[call.parent_number] < place[call.number])
    explain(rows, Selection())
    assert all(row.why for row in rows)
