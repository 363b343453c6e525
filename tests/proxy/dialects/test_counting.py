"""A request that asks for its length gets the true one, and is recorded as a call that nothing continues."""

import anthropic
import httpx

from agents.core.fold import fold
from agents.recorded import calls_of
from tests.proxy.backstage import Backstage, full_input

TOOL = {"name": "bash", "description": "Run a command.", "input_schema": {"type": "object", "properties": {}}}
ASKED = {"model": "m", "system": "You are an agent.", "messages": [{"role": "user", "content": "go"}], "tools": [TOOL]}


def test_a_count_is_the_prompt_that_the_engine_gets(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "read", "done")
    execution, base = stage.execution(run)
    with anthropic.Anthropic(base_url=base, api_key="none", max_retries=0) as client:
        first = client.messages.count_tokens(**ASKED)
        reply = client.messages.create(max_tokens=9, **ASKED)
        more = ASKED["messages"] + [{"role": "assistant", "content": reply.content}, {"role": "user", "content": "on"}]
        second = client.beta.messages.count_tokens(**ASKED | {"messages": more})
        client.messages.create(max_tokens=9, **ASKED | {"messages": more})
    assert [first.input_tokens, second.input_tokens] == [len(r["input_ids"]) for r in engine.requests]
    calls = stage.calls(execution)
    assert [(c.number, c.role, c.finish_reason, c.output_tokens) for c in calls] == [
        (0, "auxiliary", "counted", 0),
        (1, "main", "stop", calls[1].output_tokens),
        (2, "auxiliary", "counted", 0),
        (3, "main", "stop", calls[3].output_tokens),
    ]
    assert [c.parent_number for c in calls] == [None, None, 1, 1]
    assert full_input(calls[2]) == engine.requests[1]["input_ids"]


def test_a_restarted_proxy_continues_no_count(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "read")
    execution, base = stage.execution(run)
    with anthropic.Anthropic(base_url=base, api_key="none", max_retries=0) as client:
        client.messages.count_tokens(**ASKED)
    stage.stop_proxy()
    stage.start_proxy()
    with anthropic.Anthropic(base_url=f"{stage.url}/x/{base.rsplit('/', 1)[1]}", api_key="none") as client:
        client.messages.create(max_tokens=9, **ASKED)
    _counted, sampled = stage.calls(execution)
    assert (sampled.number, sampled.parent_number, sampled.role) == (1, None, "main")


def test_the_responses_dialect_counts_too(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "read")
    _, base = stage.execution(run)
    body = {"model": "m", "input": "go"}
    counted = httpx.post(f"{base}/v1/responses/input_tokens", json=body).json()
    httpx.post(f"{base}/v1/responses", json=body)
    assert counted == {"object": "response.input_tokens", "input_tokens": len(engine.requests[0]["input_ids"])}


def test_a_count_for_an_ended_execution_is_refused(stage: Backstage) -> None:
    run = stage.run()
    _, base = stage.execution(run)
    refused = httpx.post(f"{base}-unknown/v1/messages/count_tokens", json=ASKED)
    assert refused.status_code == 409
    assert refused.json()["error"]["type"] == "invalid_request_error"


def test_a_count_is_no_sign_that_the_policy_was_heard(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "read")
    execution, base = stage.execution(run)
    with anthropic.Anthropic(base_url=base, api_key="none", max_retries=0) as client:
        client.messages.count_tokens(**ASKED)
        client.messages.create(max_tokens=9, **ASKED)
    recorded = [call.recorded for call in calls_of([execution.pk])[execution.pk]]
    assert {call.number: call.acknowledged for call in recorded} == {0: False, 1: True}
    assert list(fold(recorded).facts) == [0, 1]
