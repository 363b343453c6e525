"""Matching by extension against a brute force that compares whole conversations (algorithms.md §2.1–§2.3)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agents.proxy import branches, canonical
from agents.proxy.branches import History
from agents.proxy.matching import CallIndex, RecordedCall

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


def _call(number: int, messages: list[dict], reply: dict, **fields) -> RecordedCall:
    defaults = {
        "parent": None,
        "prefix_tokens": 0,
        "new_input_ids": np.asarray([number], np.int32),
        "output_ids": np.asarray([100 + number], np.int32),
        "role": "main",
        "conversation": "main",
    }
    return RecordedCall(
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
    calls: list[RecordedCall] = []
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
    history, ids = History(False, index.calls[0], summary), np.asarray([7, 8, 9], np.int32)
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
    followed = History(False, first, None, summary)
    assert branches.branch(found, again, "main", "main", followed, ids, 0, 0) == ("compaction", None)
    why, left = branches.branch(found, again, "main", "main", History(False, first), ids, 0, 0)
    assert (why, left is not None) == ("unexplained", True)
