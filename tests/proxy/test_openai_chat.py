"""Chat Completions, as the official client speaks it."""

import json

import openai
import pytest

from agents.proxy.scripted import logprob_of
from tests.proxy.backstage import Backstage, delta, full_input, policy, sampled, tool_text

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        },
    }
]
SYSTEM = {"role": "system", "content": "You are an agent. Do the task with tools."}


def _client(base: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0)


def test_a_reply_carries_the_sampled_text_and_true_token_counts(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "done")
    execution, base = stage.execution(run)
    messages = [SYSTEM, {"role": "user", "content": "write the file"}]
    with _client(base) as client:
        reply = client.chat.completions.create(model="anything", messages=messages, tools=TOOLS)
    assert reply.choices[0].message.content == "done"
    assert reply.choices[0].finish_reason == "stop"
    expected = policy().prompt(messages, TOOLS)
    assert reply.usage.prompt_tokens == len(expected)
    assert reply.usage.completion_tokens == len(sampled("done"))
    assert engine.requests[0]["input_ids"] == expected
    [call] = stage.calls(execution)
    assert call.state == "complete"
    assert call.role == "main"
    assert full_input(call) == expected
    assert delta(call).output_ids.tolist() == sampled("done")
    first = len(expected)
    assert delta(call).output_logprobs.tolist() == pytest.approx(
        [logprob_of(t, first + n) for n, t in enumerate(sampled("done"))]
    )
    assert call.versions == [[3, 0, len(sampled("done"))]]
    assert call.model_asked == "anything"


def test_a_conversation_extends_the_recorded_ids_although_the_echo_is_spelled_differently(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, tool_text("bash", command="cat a.txt"), "done")
    execution, base = stage.execution(run)
    messages = [SYSTEM, {"role": "user", "content": "write the file"}]
    with _client(base) as client:
        first = client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message
        [tool_call] = first.tool_calls
        assert json.loads(tool_call.function.arguments) == {"command": "cat a.txt"}
        echo = {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": tool_call.id,
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{ "command":"cat a.txt", "timeout": 5 }'},
                }
            ],
        }
        messages += [echo, {"role": "tool", "tool_call_id": tool_call.id, "content": "apple"}]
        second = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    assert second.choices[0].message.content == "done"
    one, two = stage.calls(execution)
    assert two.parent_number == one.number
    assert two.prefix_tokens == one.input_tokens + one.output_tokens
    assert engine.requests[1]["input_ids"] == full_input(two)
    assert full_input(two)[: two.prefix_tokens] == full_input(one) + delta(one).output_ids.tolist()
    assert not two.false_fork
    assert two.branch_reason == ""
    assert [m["role"] for m in two.messages] == ["tool"]


def test_a_stream_delivers_each_token_as_it_is_sampled_and_ends_after_the_commit(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "read the file and write the word")
    execution, base = stage.execution(run)
    with _client(base) as client:
        stream = client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "go"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = []
        for chunk in stream:
            chunks.append(chunk)
            if chunk.choices and chunk.choices[0].finish_reason:
                assert stage.calls(execution)[0].state == "complete"
    texts = [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]
    assert "".join(texts) == "read the file and write the word"
    assert len(texts) > 3
    assert chunks[-1].usage.completion_tokens == len(sampled("read the file and write the word"))


def test_parallel_tool_calls_stream_whole_and_in_order(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, tool_text("bash", command="ls") + "\n" + tool_text("bash", command="cat a.txt"))
    _, base = stage.execution(run)
    with (
        _client(base) as client,
        client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "go"}], tools=TOOLS) as stream,
    ):
        final = stream.get_final_completion()
    commands = [json.loads(c.function.arguments)["command"] for c in final.choices[0].message.tool_calls]
    assert commands == ["ls", "cat a.txt"]
    assert final.choices[0].finish_reason == "tool_calls"


def test_a_malformed_tool_call_reaches_the_harness_as_text_and_is_counted(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, '<tool_call>\n{"name": "bash", "arguments": \n</tool_call>')
    execution, base = stage.execution(run)
    with _client(base) as client:
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}], tools=TOOLS)
    message = reply.choices[0].message
    assert message.tool_calls is None
    assert message.content.startswith("<tool_call>")
    assert message.content.endswith("</tool_call>")
    assert stage.calls(execution)[0].malformed


def test_a_prompt_over_the_context_gets_the_error_that_makes_harnesses_compact(stage: Backstage) -> None:
    run = stage.run(policy_context_tokens=16)
    stage.engine(run)
    _, base = stage.execution(run)
    with _client(base) as client, pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="m", messages=[SYSTEM, {"role": "user", "content": "go"}], tools=TOOLS)
    assert error.value.code == "context_length_exceeded"
    assert "maximum context length is 16 tokens" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"n": 2}, "n must be 1"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"max_tokens": 0}, "at least 1"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "wizard"),
        ({"messages": []}, "at least one"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "text only",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(stage: Backstage, changes: dict, word: str) -> None:
    run = stage.run()
    stage.engine(run)
    execution, base = stage.execution(run)
    request = {"model": "m", "messages": [{"role": "user", "content": "go"}]} | changes
    with _client(base) as client, pytest.raises(openai.BadRequestError, match=word):
        client.chat.completions.create(**request)
    assert stage.calls(execution) == []


def test_a_dead_key_is_refused_with_409(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run)
    execution, base = stage.execution(run)
    with _client(base) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])
        type(execution).objects.filter(pk=execution.pk).update(attempt=2)
        with pytest.raises(openai.ConflictError):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])
    with _client(f"{stage.url}/x/unknown") as client, pytest.raises(openai.ConflictError):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])


def test_the_harness_caps_tokens_and_sets_stop_strings_but_never_the_temperature(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "read the file and write the word")
    execution, base = stage.execution(run)
    with _client(base) as client:
        reply = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "go"}], temperature=0.1, max_tokens=30, stop=[" write"]
        )
    assert reply.choices[0].message.content == "read the file and"
    params = engine.requests[0]["sampling_params"]
    assert params["temperature"] == 1.0
    assert params["max_new_tokens"] == 30
    [call] = stage.calls(execution)
    assert call.sampling["asked"] == {"temperature": 0.1}
    assert delta(call).output_ids.tolist() == sampled("read the file and write the word")


def test_evaluations_are_greedy_and_use_only_the_cell_reserved_for_them(stage: Backstage) -> None:
    run = stage.run()
    training, reserved = stage.engine(run, "a"), stage.engine(run, "b", evaluation=4)
    _, base = stage.execution(run, kind="evaluation", evaluation=4)
    with _client(base) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])
    assert training.requests == []
    assert reserved.requests[0]["sampling_params"]["temperature"] == 0.0


def test_the_models_listing_names_one_model(stage: Backstage) -> None:
    run = stage.run()
    _, base = stage.execution(run)
    with _client(base) as client:
        assert [m.id for m in client.models.list()] == ["policy"]
        assert client.models.retrieve("whatever").id == "whatever"
