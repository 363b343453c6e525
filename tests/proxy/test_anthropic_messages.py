"""Messages, as the official client speaks it."""

import anthropic
import pytest

from tests.proxy.backstage import Backstage, delta, full_input, policy, sampled, tool_text

TOOL = {
    "name": "bash",
    "description": "Run a command.",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
SYSTEM = [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli;"},
    {"type": "text", "text": "You are an agent. Do the task with tools.", "cache_control": {"type": "ephemeral"}},
]


def _client(base: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=base, api_key="none", max_retries=0)


def _user(text: str) -> dict:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def test_the_same_conversation_has_the_same_ids_in_both_dialects(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "done")
    _, base = stage.execution(run)
    with _client(base) as client:
        reply = client.messages.create(
            model="m", max_tokens=9, system=SYSTEM, messages=[_user("write the file")], tools=[TOOL]
        )
    function = {"name": "bash", "description": "Run a command.", "parameters": TOOL["input_schema"]}
    messages = [
        {"role": "system", "content": "You are an agent. Do the task with tools."},
        {"role": "user", "content": "write the file"},
    ]
    assert engine.requests[0]["input_ids"] == policy().prompt(messages, [{"type": "function", "function": function}])
    assert engine.requests[0]["sampling_params"]["max_new_tokens"] == 9
    assert [block.text for block in reply.content] == ["done"]
    assert reply.stop_reason == "end_turn"
    assert reply.usage.input_tokens == len(engine.requests[0]["input_ids"])
    assert reply.usage.output_tokens == len(sampled("done"))


def test_parallel_tools_stream_as_blocks_and_their_results_extend_the_record(stage: Backstage) -> None:
    run = stage.run()
    said = "read\n" + tool_text("bash", command="ls") + "\n" + tool_text("bash", command="cat a.txt")
    engine = stage.engine(run, said, "done")
    execution, base = stage.execution(run)
    with _client(base) as client:
        with client.messages.stream(
            model="m", max_tokens=100, system=SYSTEM, messages=[_user("go")], tools=[TOOL]
        ) as stream:
            first = stream.get_final_message()
        assert [block.type for block in first.content] == ["text", "tool_use", "tool_use"]
        assert [block.input["command"] for block in first.content[1:]] == ["ls", "cat a.txt"]
        assert first.stop_reason == "tool_use"
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": [{"type": "text", "text": "apple"}]}
            for block in first.content[1:]
        ]
        echo = {"role": "assistant", "content": [block.to_dict() for block in first.content]}
        # What moves between calls: cache markers, and the billing line of the system blocks.
        system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=9;"}, SYSTEM[1]]
        client.messages.create(
            model="m",
            max_tokens=100,
            system=system,
            messages=[_user("go"), echo, {"role": "user", "content": results}],
            tools=[TOOL],
        )
    one, two = stage.calls(execution)
    assert two.parent_number == one.number
    assert two.prefix_tokens == one.input_tokens + one.output_tokens
    assert engine.requests[1]["input_ids"] == full_input(two)
    assert delta(one).output_ids.tolist() == sampled(said)


def test_thinking_streams_as_a_thinking_block(stage: Backstage) -> None:
    if policy().think_start_id < 0:
        pytest.skip("the bundled vocabulary has no think tokens")
    run = stage.run()
    stage.engine(run, "<think>\nread the file\n</think>\n\ndone")
    _, base = stage.execution(run)
    with (
        _client(base) as client,
        client.messages.stream(model="m", max_tokens=100, messages=[_user("go")]) as stream,
    ):
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["thinking", "text"]
    assert final.content[0].thinking == "read the file"
    assert final.content[1].text == "done"


def test_errors_have_the_dialects_own_shape(stage: Backstage) -> None:
    run = stage.run(policy_context_tokens=16)
    stage.engine(run)
    _, base = stage.execution(run)
    with _client(base) as client:
        with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: [0-9]+ tokens > 16 maximum"):
            client.messages.create(model="m", max_tokens=9, system=SYSTEM, messages=[_user("go")], tools=[TOOL])
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
        with pytest.raises(anthropic.BadRequestError, match="text only") as refused:
            client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": [image]}])
    assert refused.value.body["error"]["type"] == "invalid_request_error"
    with _client(f"{stage.url}/x/unknown") as client, pytest.raises(anthropic.ConflictError):
        client.messages.create(model="m", max_tokens=9, messages=[_user("go")])


def test_a_reply_that_the_client_began_is_continued_not_closed(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, " file")
    _, base = stage.execution(run)
    messages = [_user("go"), {"role": "assistant", "content": "the"}]
    with _client(base) as client:
        client.messages.create(model="m", max_tokens=9, messages=messages)
    assert policy().tokenizer.decode(engine.requests[0]["input_ids"]).endswith("<|im_start|>assistant\nthe")


def test_a_stop_sequence_is_named(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "read the file and write the word")
    _, base = stage.execution(run)
    with _client(base) as client:
        reply = client.messages.create(
            model="m", max_tokens=50, messages=[_user("go")], stop_sequences=[" write", " word"]
        )
    assert reply.content[0].text == "read the file and"
    assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", " write")
