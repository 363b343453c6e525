"""Requests that name the reply they follow go on from the record, token by token, as if all had been sent again."""

import anthropic
import openai
import pytest

from tests.proxy.backstage import Backstage, full_input, policy, tool_text
from tests.proxy.dialects.speakers import PARAMETERS, SYSTEM

TOOL = {"name": "bash", "description": "Run a command.", "input_schema": PARAMETERS}
FUNCTION = {"type": "function", "name": "bash", "description": "Run a command.", "parameters": PARAMETERS}


def _restarted(stage: Backstage, base: str) -> str:
    stage.stop_proxy()
    stage.start_proxy()
    return f"{stage.url}/x/{base.rsplit('/', 1)[1]}"


def test_a_thread_of_messages_goes_on_from_its_replies_also_after_a_restart(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "read\n" + tool_text("bash", command="ls"), "done", "file")
    execution, base = stage.execution(run)
    with anthropic.Anthropic(base_url=base, api_key="none", max_retries=0) as client:
        first = client.beta.messages.create(
            model="m",
            max_tokens=100,
            system=SYSTEM,
            tools=[TOOL],
            messages=[{"role": "user", "content": "go"}],
            thread={"type": "create"},
        )
        result = {"type": "tool_result", "tool_use_id": first.content[1].id, "content": "apple"}
        with client.beta.messages.stream(
            model="m",
            max_tokens=100,
            messages=[{"role": "user", "content": [result]}],
            thread={"type": "continue", "previous_message_id": first.id},
        ) as stream:
            second = stream.get_final_message()
    with anthropic.Anthropic(base_url=_restarted(stage, base), api_key="none", max_retries=0) as client:
        client.beta.messages.create(
            model="m",
            max_tokens=100,
            messages=[{"role": "user", "content": "on"}],
            thread={"type": "continue", "previous_message_id": second.id},
        )
    calls = stage.calls(execution)
    assert [call.parent_number for call in calls] == [None, 0, 1]
    assert [call.prefix_tokens for call in calls[1:]] == [c.input_tokens + c.output_tokens for c in calls[:-1]]
    assert [full_input(call) for call in calls] == [request["input_ids"] for request in engine.requests]
    assert policy().tokenizer.decode(full_input(calls[2])).count(SYSTEM) == 1


def test_a_response_goes_on_from_the_previous_one(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, tool_text("bash", command="ls") + "\n" + tool_text("bash", command="cat"), "done", "file", "file")
    execution, base = stage.execution(run)
    asked = {"model": "m", "tools": [FUNCTION]}
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
        first = client.responses.create(**asked, instructions=SYSTEM, input="go")
        results = [{"type": "function_call_output", "call_id": c.call_id, "output": "apple"} for c in first.output]
        second = client.responses.create(**asked, input=results, previous_response_id=first.id)
        client.responses.create(**asked, input="on", previous_response_id=second.id)
        fork = client.responses.create(
            **asked, instructions="You are a helper.", input="on", previous_response_id=second.id
        )
    one, two, three, four = stage.calls(execution)
    assert second.previous_response_id == first.id
    assert [two.prefix_tokens, three.prefix_tokens] == [c.input_tokens + c.output_tokens for c in (one, two)]
    said = policy().tokenizer.decode(full_input(four))
    assert "You are a helper." in said
    assert SYSTEM not in said
    assert said.count("apple") == 2
    assert fork.output_text == "file"


def test_a_reply_that_is_not_on_record_is_an_error_that_makes_clients_send_everything(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "done")
    execution, base = stage.execution(run)
    other, elsewhere = stage.execution(run)
    with openai.OpenAI(base_url=f"{elsewhere}/v1", api_key="none", max_retries=0) as client:
        foreign = client.responses.create(model="m", input="go").id
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
        for id in (foreign, "resp_none"):
            with pytest.raises(openai.BadRequestError) as refused:
                client.responses.create(model="m", input="on", previous_response_id=id)
            assert refused.value.code == "previous_response_not_found"
    with (
        anthropic.Anthropic(base_url=base, api_key="none", max_retries=0) as client,
        pytest.raises(anthropic.NotFoundError) as lost,
    ):
        client.beta.messages.create(
            model="m",
            max_tokens=9,
            messages=[{"role": "user", "content": "on"}],
            thread={"type": "continue", "previous_message_id": "msg_none"},
        )
    assert lost.value.error_code == "thread_not_found"
    assert (stage.calls(execution), len(stage.calls(other))) == ([], 1)
