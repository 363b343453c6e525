"""Whatever a policy samples for a tool's arguments is on record, and its harness hears it or reads it as text."""

import json

import pytest

from agents.proxy.parsing import ReplyParser
from agents.proxy.replies import Reply
from tests.proxy.backstage import Backstage, delta, policy, sampled, tool_text
from tests.proxy.dialects.speakers import SPEAKERS, Speaker

CALL = '<tool_call>\n{"name": "bash", "arguments": %s}\n</tool_call>'
#: Arguments that no JSON can say to every harness -> a word of the reason.
UNSAYABLE = {
    '{"v": 123456789012345678901234567890}': "64-bit",
    '{"v": [-9223372036854775809]}': "64-bit",
    '{"v": NaN}': "not JSON compliant",
    '{"v": {"w": -Infinity}}': "not JSON compliant",
    '{"v": 1e999}': "not JSON compliant",
    '{"v": "\\ud800"}': "surrogates",
    '{"\\udfff": 1}': "UTF-8",
    '{"v": ' + "[" * 150 + "]" * 150 + "}": "nested",
    '{"v": ' + "[" * 5000 + "]" * 5000 + "}": "gave up",
    '{"v": ' + "9" * 5000 + "}": "gave up",
    "null": "no object",
    "[1]": "no object",
    '"ls"': "no object",
    "{": "invalid json",
}
#: Arguments that are said as they are -> what the harness reads.
SAYABLE = {
    '{"v": 18446744073709551615}': {"v": 2**64 - 1},
    '{"v": "\\u0000\\ud83d\\ude42"}': {"v": "\x00🙂"},
    '{"v": 1, "v": 2}': {"v": 2},
    '{"v": ' + "[" * 90 + "]" * 90 + "}": json.loads('{"v": ' + "[" * 90 + "]" * 90 + "}"),
}


def _read(text: str) -> Reply:
    parser = ReplyParser(policy())
    parser.feed(sampled(text))
    parser.finish()
    return parser.reply


@pytest.mark.parametrize("arguments", UNSAYABLE)
def test_arguments_that_no_json_can_say_are_the_text_that_they_are_with_a_reason(arguments: str) -> None:
    reply = _read(CALL % arguments)
    assert (reply.content, reply.tool_calls, reply.malformed) == (CALL % arguments, [], True)
    assert UNSAYABLE[arguments] in reply.fault


@pytest.mark.parametrize("arguments", SAYABLE)
def test_arguments_that_json_can_say_are_a_call(arguments: str) -> None:
    reply = _read(CALL % arguments)
    assert [use.arguments for use in reply.tool_calls] == [SAYABLE[arguments]]
    assert (reply.malformed, reply.fault) == (False, "")


def test_a_name_that_cannot_be_written_is_no_call_and_the_call_before_it_stays() -> None:
    reply = _read(tool_text("bash", command="ls") + '\n<tool_call>\n{"name": "\\ud800", "arguments": {}}\n</tool_call>')
    assert [use.name for use in reply.tool_calls] == ["bash"]
    assert reply.malformed
    assert "surrogates" in reply.fault


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("speaker", [speaker for speaker in SPEAKERS if not speaker.is_async], ids=repr)
def test_every_client_reads_an_unsayable_call_as_text_and_goes_on_from_its_ids(
    stage: Backstage, speaker: Speaker, stream: bool
) -> None:
    run = stage.run(max_new_tokens=100)
    said = CALL % '{"v": 123456789012345678901234567890}'
    engine = stage.engine(run, said, "done")
    execution, base = stage.execution(run)
    history = [speaker.user("go")]
    heard = (speaker.stream if stream else speaker.ask)(base, history)
    assert (heard.text, heard.uses) == (said, [])
    speaker.ask(base, [*history, *heard.echo, speaker.user("on")])
    first, second = stage.calls(execution)
    assert delta(first).output_ids.tolist() == sampled(said)
    assert (first.state, first.malformed, second.parent_number) == ("complete", True, 0)
    assert "64-bit" in first.error
    whole = engine.requests[0]["input_ids"] + sampled(said)
    assert engine.requests[1]["input_ids"][: len(whole)] == whole
