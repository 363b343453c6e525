"""Responses, as the official client speaks it."""

import json

import openai
import pytest

from tests.proxy.backstage import Backstage, delta, full_input, policy, sampled, tool_text

BASH = {
    "type": "function",
    "name": "bash",
    "description": "Run a command.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
GO = {"model": "anything", "input": "go"}


def _client(base: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0)


def test_the_same_conversation_has_the_same_ids_as_in_the_other_dialects(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "done")
    _, base = stage.execution(run)
    with _client(base) as client:
        reply = client.responses.create(
            model="m", instructions="You are an agent.", input="write the file", tools=[BASH], max_output_tokens=9
        )
    function = {name: BASH[name] for name in ("name", "description", "parameters")}
    messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "write the file"}]
    assert engine.requests[0]["input_ids"] == policy().prompt(messages, [{"type": "function", "function": function}])
    assert engine.requests[0]["sampling_params"]["max_new_tokens"] == 9
    assert reply.output_text == "done"
    assert reply.status == "completed"
    assert reply.usage is not None
    assert reply.usage.input_tokens == len(engine.requests[0]["input_ids"])
    assert reply.usage.output_tokens == len(sampled("done"))


def test_a_stream_has_the_events_of_each_item_in_order(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "read\n" + tool_text("bash", command="ls"))
    _, base = stage.execution(run)
    with _client(base) as client:
        events = list(client.responses.create(**GO, tools=[BASH], stream=True))
    kinds = [event.type.removeprefix("response.") for event in events]
    once = [kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before]
    assert once == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    done = events[-1].response
    assert [item.type for item in done.output] == ["message", "function_call"]
    assert json.loads(done.output[1].arguments) == {"command": "ls"}
    assert {event.item.id for event in events if event.type.endswith("item.done")} == {i.id for i in done.output}


def test_parallel_calls_echoed_with_their_results_extend_the_record(stage: Backstage) -> None:
    run = stage.run()
    said = "read\n" + tool_text("bash", command="ls") + "\n" + tool_text("bash", command="cat a.txt")
    engine = stage.engine(run, said, "done")
    execution, base = stage.execution(run)
    with _client(base) as client:
        with client.responses.stream(**GO, tools=[BASH]) as stream:
            first = stream.get_final_response()
        calls = [item for item in first.output if item.type == "function_call"]
        results = [{"type": "function_call_output", "call_id": c.call_id, "output": "apple"} for c in calls]
        history = [{"role": "user", "content": "go"}, *[i.to_dict() for i in first.output], *results]
        second = client.responses.create(model="m", input=history, tools=[BASH])
    assert second.output_text == "done"
    one, two = stage.calls(execution)
    assert (two.parent_number, two.false_fork) == (one.number, False)
    assert two.prefix_tokens == one.input_tokens + one.output_tokens
    assert engine.requests[1]["input_ids"] == full_input(two)
    assert delta(one).output_ids.tolist() == sampled(said)
    assert [m["role"] for m in two.messages] == ["tool", "tool"]


def test_a_reply_that_ends_at_the_limit_is_incomplete(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "read the file and write the word")
    _, base = stage.execution(run)
    with _client(base) as client:
        whole = client.responses.create(**GO, max_output_tokens=3)
        last = list(client.responses.create(**GO, max_output_tokens=3, stream=True))[-1]
    for reply in (whole, last.response):
        assert reply.status == "incomplete"
        assert reply.incomplete_details.reason == "max_output_tokens"
        assert reply.usage.output_tokens == 3
    assert last.type == "response.incomplete"


def test_reasoning_is_an_item_of_its_own_with_its_tokens_counted(stage: Backstage) -> None:
    if policy().think_start_id < 0:
        pytest.skip("the bundled vocabulary has no think tokens")
    run = stage.run()
    stage.engine(run, "<think>\nread the file\n</think>\n\ndone", "read")
    execution, base = stage.execution(run)
    with _client(base) as client:
        events = list(client.responses.create(**GO, stream=True))
        final = events[-1].response
        history = [{"role": "user", "content": "go"}, *[i.to_dict() for i in final.output]]
        client.responses.create(model="m", input=[*history, {"role": "user", "content": "on"}])
    assert [item.type for item in final.output] == ["reasoning", "message"]
    assert final.output[0].content[0].text == "read the file"
    assert "".join(e.delta for e in events if e.type == "response.reasoning_text.delta") == "read the file"
    assert final.usage.output_tokens_details.reasoning_tokens == len(
        sampled("<think>\nread the file\n</think>", close=False)
    )
    one, two = stage.calls(execution)
    assert two.prefix_tokens == one.input_tokens + one.output_tokens


TOOLS = [
    {
        "type": "namespace",
        "name": "multi_agent_v1",
        "tools": [
            {"type": "function", "name": "spawn_agent", "parameters": {"type": "object", "properties": {}}},
        ],
    },
    {
        "type": "custom",
        "name": "apply_patch",
        "description": "Patch.",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"},
    },
    {"type": "local_shell"},
    {"type": "web_search"},
]


@pytest.mark.parametrize(
    ("said", "item"),
    [
        (
            tool_text("multi_agent_v1__spawn_agent", message="go"),
            {
                "type": "function_call",
                "namespace": "multi_agent_v1",
                "name": "spawn_agent",
                "arguments": '{"message":"go"}',
            },
        ),
        (
            tool_text("spawn_agent", message="go"),
            {
                "type": "function_call",
                "namespace": "multi_agent_v1",
                "name": "spawn_agent",
                "arguments": '{"message":"go"}',
            },
        ),
        (
            tool_text("apply_patch", input="*** Begin Patch"),
            {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch"},
        ),
        (
            tool_text("local_shell", command=["ls", "-l"]),
            {"type": "local_shell_call", "action": {"type": "exec", "env": {}, "command": ["ls", "-l"]}},
        ),
        (tool_text("mystery", a=1), {"type": "function_call", "name": "mystery", "arguments": '{"a":1}'}),
    ],
)
def test_each_kind_of_tool_comes_back_as_its_own_item_and_its_echo_is_recognised(
    stage: Backstage, said: str, item: dict
) -> None:
    run = stage.run()
    engine = stage.engine(run, said, "done")
    execution, base = stage.execution(run)
    with _client(base) as client:
        events = list(client.responses.create(**GO, tools=TOOLS, stream=True))
        [found] = [i.to_dict() for i in events[-1].response.output]
        assert {name: found.get(name) for name in item} == item
        done = next(e.item.to_dict() for e in events if e.type == "response.output_item.done")
        assert done == found
        result = {"type": f"{found['type']}_output", "call_id": found["call_id"], "output": "apple"}
        history = [{"role": "user", "content": "go"}, found, result]
        client.responses.create(model="m", input=history, tools=TOOLS)
    one, two = stage.calls(execution)
    assert two.prefix_tokens == one.input_tokens + one.output_tokens
    offered = policy().tokenizer.decode(engine.requests[0]["input_ids"])
    assert '"multi_agent_v1__spawn_agent"' in offered
    assert "follows this lark grammar" in offered
    assert "web_search" not in offered


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"previous_response_id": "resp_1"}, "send the whole conversation"),
        ({"background": True}, "background is not supported"),
        ({"input": []}, "at least one item"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "send the item itself"),
        ({"input": [{"type": "wizardry"}]}, "wizardry"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,A"}]}]},
            "text only",
        ),
        ({"max_output_tokens": 0}, "at least 1"),
        ({"tools": [{"type": "function"}]}, "must have a name"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(stage: Backstage, changes: dict, word: str) -> None:
    run = stage.run()
    stage.engine(run)
    execution, base = stage.execution(run)
    with _client(base) as client, pytest.raises(openai.BadRequestError, match=word) as refused:
        client.responses.create(**(GO | changes))
    assert refused.value.type == "invalid_request_error"
    assert stage.calls(execution) == []


def test_a_prompt_over_the_context_is_an_error_reply_or_a_stream_that_fails(stage: Backstage) -> None:
    run = stage.run(policy_context_tokens=16)
    stage.engine(run)
    _, base = stage.execution(run)
    with _client(base) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(**GO, tools=[BASH])
        events = list(client.responses.create(**GO, tools=[BASH], stream=True))
    assert refused.value.code == "context_length_exceeded"
    assert events[0].type == "response.created"
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.code == "context_length_exceeded"
    assert " 16 tokens" in events[-1].response.error.message
