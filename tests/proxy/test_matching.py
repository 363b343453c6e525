"""Matching by extension against a brute force that compares whole conversations (docs/algorithms.md §2.1–§2.3)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agents.proxy import branches, canonical
from agents.proxy.branches import ConversationState
from agents.proxy.matching import CallIndex, PriorCall

TOOLS = [{"type": "function", "function": {"name": "bash"}}]
WORDS = st.sampled_from(["a", "b"])
MESSAGES = st.lists(
    st.builds(lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "assistant"]), WORDS),
    max_size=5,
).map(lambda rest: [{"role": "user", "content": "go"}, *rest])


def _prompt_key(messages: list[dict], tools: list[dict] = TOOLS) -> bytes:
    key = canonical.context_key(tools)
    for message in messages:
        key = canonical.extend_key(key, canonical.message_key(message))
    return key


def _spoken_key(messages: list[dict]) -> bytes:
    key = b""
    for message in messages:
        key = key if message["role"] == "system" else canonical.extend_key(key, canonical.message_key(message))
    return key


def _call(number: int, messages: list[dict], reply: dict, **fields) -> PriorCall:
    defaults = {
        "parent": None,
        "prefix_tokens": 0,
        "new_input_ids": np.asarray([number], np.int32),
        "output_ids": np.asarray([100 + number], np.int32),
        "role": "main",
        "conversation": "main",
        "spoken_key": _spoken_key(messages),
    }
    return PriorCall(
        number=number, num_messages=len(messages), prompt_key=_prompt_key(messages), reply=reply, **(defaults | fields)
    )


@given(st.lists(st.tuples(MESSAGES, WORDS), max_size=6), MESSAGES)
def test_the_deepest_recorded_context_is_found(recorded, request) -> None:
    index, contexts = CallIndex(), []
    for number, (messages, word) in enumerate(recorded):
        reply = canonical.assistant(word)
        index.add(_call(number, messages, reply))
        contexts += [(messages, "prompt"), ([*messages, reply], "reply")]
    found = index.match(request, TOOLS)
    fitting = [(len(context), after == "reply") for context, after in contexts if request[: len(context)] == context]
    if not fitting:
        assert found.parent is None
        return
    assert (found.start, found.after == "reply") == max(fitting)
    assert found.prompt_key == _prompt_key(request)


@given(MESSAGES)
def test_other_tools_are_another_context(messages) -> None:
    index = CallIndex()
    index.add(_call(0, messages, canonical.assistant("a")))
    assert index.match(messages, TOOLS).parent is not None
    assert index.match(messages, []).parent is None


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 8), st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9))),
        max_size=6,
    )
)
def test_a_path_is_what_the_rows_say(steps) -> None:
    calls: list[PriorCall] = []
    whole: list[list[int]] = []
    for number, (parent, cut, new, out) in enumerate(steps):
        up = calls[parent % len(calls)] if calls else None
        before = whole[parent % len(calls)] if calls else []
        prefix = min(cut, len(before))
        calls.append(
            _call(
                number,
                [],
                canonical.assistant("a"),
                parent=up,
                prefix_tokens=prefix,
                new_input_ids=np.asarray(new, np.int32),
                output_ids=np.asarray(out, np.int32),
            )
        )
        whole.append(before[:prefix] + new + out)
    for call, ids in zip(calls, whole, strict=True):
        assert call.path_tokens == len(ids)
        for length in {0, len(ids) // 2, len(ids)}:
            assert call.path(length).tolist() == ids[:length]


def test_an_echo_is_linked_by_its_tool_call_ids_unless_its_text_was_edited() -> None:
    index = CallIndex()
    sampled = canonical.assistant("ok", [canonical.tool_call("1", "edit", {"old": "a"})])
    index.add(_call(0, [{"role": "user", "content": "go"}], sampled))
    coerced = canonical.tool_call("1", "edit", '{"replace_all": false, "old": "a"}')
    assert index.recognise(canonical.assistant(" ok\n", [coerced])).call.number == 0
    assert index.recognise(canonical.assistant("changed", [coerced])) is None
    other_id = canonical.tool_call("9", "edit", '{ "old":"a" }')
    assert index.recognise(canonical.assistant("ok", [other_id])).call.number == 0


def test_an_empty_turn_before_the_one_that_a_repeated_request_got_does_not_count() -> None:
    def read(*turns: canonical.Message) -> list[canonical.Message]:
        return canonical.ModelRequest("", list(turns), [], canonical.Sampling(), False).messages

    go, empty, said = {"role": "user", "content": "go"}, canonical.assistant(""), canonical.assistant("a")
    assert read(go, empty, said, go) == [go, said, go]
    assert read(go, empty, empty, said) == [go, said]
    assert read(go, said, empty, go) == [go, said, empty, go]
    assert read(go, said, empty) == [go, said, empty]


def test_keeping_a_turn_behind_a_summary_is_no_false_fork() -> None:
    index = CallIndex()
    start, turn = [{"role": "user", "content": "go"}], canonical.assistant("a")
    index.add(_call(0, start, turn))
    question = [*start, turn, {"role": "user", "content": "sum up"}]
    summary = _call(1, question, canonical.assistant("s"), role="main-summary", parent=index.calls[0])
    index.add(summary)
    kept = [{"role": "user", "content": "so far: s"}, turn, {"role": "user", "content": "on"}]
    found = index.match(kept, TOOLS)
    history, ids = ConversationState(False, index.calls[0], summary), np.asarray([7, 8, 9], np.int32)
    assert branches.branch(found, kept, "main", "main", history, ids, 0, 0) == ("kept-round", None)


def test_an_opening_that_is_written_again_after_a_compaction_is_no_false_fork() -> None:
    index = CallIndex()
    summary = _call(0, [{"role": "user", "content": "sum up"}], canonical.assistant("so far: s"), role="main-summary")
    first = _call(1, [{"role": "user", "content": "so far: s"}], canonical.assistant("a"))
    index.add(summary)
    index.add(first)
    again = [{"role": "user", "content": "Rules.\nso far: s"}, first.reply, {"role": "user", "content": "on"}]
    ids = np.asarray([7, 8, 9], np.int32)
    found = index.match(again, TOOLS)
    followed = ConversationState(False, first, None, summary)
    assert branches.branch(found, again, "main", "main", followed, ids, 0, 0) == ("compaction", None)
    why, left = branches.branch(found, again, "main", "main", ConversationState(False, first), ids, 0, 0)
    assert (why, left is not None) == ("unexplained", True)


def _use(id: str, **arguments: object) -> dict:
    return canonical.tool_call(id, "edit", arguments)


def test_an_echo_without_the_text_beside_its_calls_and_one_with_other_ids_and_defaults_are_the_sampled_turn() -> None:
    index, start = CallIndex(), [{"role": "user", "content": "go"}]
    index.add(_call(0, start, canonical.assistant("ok", [_use("1", old="a", all="true")])))
    bare = canonical.assistant("", [_use("1", old="a")])
    renamed = canonical.assistant("ok", [_use("own", all=True, old="a", by_default=False)])
    for echo in (bare, renamed):
        found = index.match([*start, echo], TOOLS)
        assert (found.after, found.start, found.kept) == ("reply", 2, ())
    other = canonical.assistant("ok", [_use("own", all=True, old="b")])
    assert index.match([*start, other], TOOLS).after == "prompt"


def test_equal_answers_are_told_apart_by_what_was_said_before_them() -> None:
    index, done = CallIndex(), canonical.assistant("done")
    first = [{"role": "user", "content": "one"}]
    second = [*first, done, {"role": "user", "content": "two"}]
    index.add(_call(0, first, done))
    index.add(_call(1, second, done, parent=index.calls[0]))
    both = [*second, done, {"role": "user", "content": "on"}]
    assert [call.number for _, call in index.match(both, TOOLS).recognised] == [0, 1]
    elsewhere = index.match([{"role": "system", "content": "new"}, *both], [])
    assert [call.number for _, call in elsewhere.recognised] == [0, 1]


def test_tool_results_count_in_the_order_of_their_calls_whatever_order_they_came_in() -> None:
    turn = canonical.assistant("", [_use("1", old="a"), _use("2", old="b")])
    results = [{"role": "tool", "tool_call_id": id, "content": id} for id in "12"]
    start = [{"role": "user", "content": "go"}]
    one, other = (
        canonical.in_call_order([*start, turn, *order, {"role": "user", "content": "on"}])
        for order in (results, results[::-1])
    )
    assert one == other
    strange = {"role": "tool", "tool_call_id": "9", "content": "9"}
    assert canonical.in_call_order([turn, strange, *results[::-1]]) == [turn, *results, strange]


def test_a_reply_whose_end_never_came_is_known_by_its_beginning() -> None:
    index, start = CallIndex(), [{"role": "user", "content": "go"}]
    index.add(_call(0, start, canonical.assistant("look at it", [_use("1", old="a"), _use("2", old="b")])))
    for echo in (
        canonical.assistant("look"),
        canonical.assistant("look at it", [_use("1", old="a")]),
        canonical.assistant("look at it"),
    ):
        [turn] = index.match([*start, echo], TOOLS).turns
        assert (turn.call.number, turn.is_cut, turn.is_whole) == (0, True, False)
    assert index.match([*start, canonical.assistant("at it")], TOOLS).turns == ()


def test_a_broken_answer_and_those_that_went_on_with_it_are_one_turn_when_they_are_glued() -> None:
    index, start = CallIndex(), [{"role": "user", "content": "go"}]
    go_on = {"role": "user", "content": "The connection dropped."}
    index.add(_call(0, start, canonical.assistant("This is")))
    second = [*start, canonical.assistant("This is"), go_on]
    index.add(_call(1, second, canonical.assistant("the beginning"), parent=index.calls[0], echo=second[1]))
    third = [*second, canonical.assistant("the beginning"), go_on]
    last = canonical.assistant("of it.", [_use("1", old="a")])
    index.add(_call(2, third, last, parent=index.calls[1], echo=third[3]))
    twice = canonical.assistant("This isthe beginning")
    thrice = canonical.assistant("This is the beginning of it.", [_use("1", old="a")])
    for glued, parts in ((twice, (1,)), (thrice, (1, 2))):
        [turn] = index.match([*start, glued], TOOLS).turns
        assert turn.call.number == 0
        assert tuple(call.number for call in turn.continuations) == parts
    assert index.match([*start, canonical.assistant("This is of it.", [_use("1", old="a")])], TOOLS).turns == ()
