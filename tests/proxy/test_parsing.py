"""Streaming a reply gives what parsing it whole gives, however its ids are cut."""

import json

from hypothesis import given
from hypothesis import strategies as st
from renderers.base import ToolCallParseStatus

from agents.proxy.parsing import ReplyParser
from agents.proxy.replies import Reply, TextPiece, ToolUse
from tests.proxy.backstage import policy, sampled, tool_text

PARTS = [
    "read the file",
    " \n",
    "é – 漢字 🙂",
    tool_text("bash", command="cat a.txt"),
    "<tool_call>\n{broken\n</tool_call>",
    '<tool_call>\n{"arguments": {}}\n</tool_call>',
    "<tool_call>",
    "</tool_call>",
    "<|im_start|>",
]


def _stream(ids: list[int], cuts: list[int], stop: tuple[str, ...] = ()) -> tuple[Reply, list]:
    parser, pieces, start = ReplyParser(policy(), stop), [], 0
    for end in [*sorted(cut % (len(ids) + 1) for cut in cuts), len(ids)]:
        pieces += parser.feed(ids[start:end])
        start = end
    return parser.reply, pieces + parser.finish()


@given(st.lists(st.sampled_from(PARTS), max_size=6), st.lists(st.integers(0, 1000), max_size=8), st.booleans())
def test_the_pieces_add_up_to_the_same_reply_wherever_the_stream_is_cut(parts, cuts, closed) -> None:
    ids = sampled("".join(parts), close=closed)
    whole, _ = _stream(ids, [])
    streamed, pieces = _stream(ids, cuts)
    assert streamed.content == whole.content == "".join(p.text for p in pieces if isinstance(p, TextPiece))
    assert [c.arguments for c in streamed.tool_calls] == [c.arguments for c in whole.tool_calls]
    assert streamed.malformed == whole.malformed
    assert streamed.content == streamed.content.strip()


@given(st.lists(st.sampled_from(PARTS), max_size=6))
def test_tool_calls_are_those_that_the_renderers_package_parses(parts) -> None:
    ids = sampled("".join(parts))
    parsed = policy().renderer.parse_response(ids)
    reply, pieces = _stream(ids, list(range(0, 200)))
    good = [c for c in parsed.tool_calls if c.status is ToolCallParseStatus.OK and isinstance(c.arguments, dict)]
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [(c.name, c.arguments) for c in good]
    assert reply.malformed == (len(good) < len(parsed.tool_calls))
    assert [p for p in pieces if isinstance(p, ToolUse)] == reply.tool_calls
    if not parsed.tool_calls:
        assert reply.content == parsed.content


@given(st.lists(st.integers(0, 1407), max_size=40), st.lists(st.integers(0, 1000), max_size=8))
def test_any_ids_at_all_give_valid_text(ids, cuts) -> None:
    reply, _ = _stream(ids, cuts)
    json.dumps(reply.to_json()).encode()


@given(st.text(alphabet="ab<\n", max_size=12), st.lists(st.integers(0, 50), max_size=5))
def test_text_ends_before_the_first_stop_string(text, cuts) -> None:
    ids = sampled(text)
    reply, _ = _stream(ids, cuts, stop=("ab<", "\n\n"))
    ends = [at for at in (text.find("ab<"), text.find("\n\n")) if at >= 0]
    expected = text[: min(ends)] if ends else text
    assert reply.content.strip() == expected.strip()


def test_reasoning_is_told_apart_where_the_vocabulary_marks_it() -> None:
    rendering = policy()
    if rendering.think_start_id < 0:
        return
    reply, _ = _stream(sampled("<think>\nread the file\n</think>\n\ndone"), [3, 5])
    assert (reply.reasoning, reply.content) == ("read the file", "done")
