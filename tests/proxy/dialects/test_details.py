"""What single dialects accept, leave out and refuse beyond the conversation itself."""

import json

import anthropic
import httpx
import openai
import pytest

from tests.proxy.backstage import Backstage, policy

GO = [{"role": "user", "content": "go"}]


def _prompt(stage: Backstage) -> str:
    return policy().tokenizer.decode(stage.engines[0].requests[-1]["input_ids"])


def _messages(base: str, **body) -> anthropic.types.Message:
    with anthropic.Anthropic(base_url=base, api_key="none", max_retries=0) as client:
        return client.messages.create(**{"model": "m", "max_tokens": 9, "messages": GO} | body)


@pytest.fixture
def base(stage: Backstage) -> str:
    run = stage.run()
    stage.engine(run, "done")
    return stage.execution(run)[1]


def test_every_client_finds_the_models_listing(stage: Backstage, base: str) -> None:
    with anthropic.Anthropic(base_url=base, api_key="none") as client:
        assert [m.id for m in client.models.list()] == ["policy"]
        assert client.models.retrieve("any-name").id == "any-name"
    for prefix in ("/v1", ""):
        with openai.OpenAI(base_url=f"{base}{prefix}", api_key="none") as client:
            assert [m.id for m in client.models.list()] == ["policy"]
            assert client.models.retrieve("any-name").id == "any-name"
            assert client.responses.create(model="any-name", input="go").output_text == "done"


def test_replies_and_errors_carry_the_id_that_clients_look_for(stage: Backstage, base: str) -> None:
    assert _messages(base)._request_id
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none") as client:
        assert client.chat.completions.create(model="m", messages=GO)._request_id
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="m", messages=GO, n=2)
    assert refused.value.request_id


def test_a_system_message_may_stand_in_mid_conversation(stage: Backstage, base: str) -> None:
    said = [*GO, {"role": "assistant", "content": "read"}, {"role": "user", "content": "on"}]
    _messages(base, messages=[*said, {"role": "system", "content": "You are told more."}])
    assert _prompt(stage).endswith("<|im_start|>system\nYou are told more.<|im_end|>\n<|im_start|>assistant\n")


def test_the_beta_query_changes_nothing(stage: Backstage, base: str) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": GO}
    replies = [httpx.post(f"{base}/v1/messages{query}", json=body).json() for query in ("", "?beta=true")]
    assert [reply["content"] for reply in replies] == [[{"type": "text", "text": "done"}]] * 2


def test_blocks_that_wrap_text_are_read_as_text(stage: Backstage, base: str) -> None:
    document = {
        "type": "document",
        "title": "notes",
        "source": {"type": "text", "media_type": "text/plain", "data": "apple"},
    }
    found = {"type": "search_result", "source": "a.txt", "title": "t", "content": [{"type": "text", "text": "pear"}]}
    _messages(base, messages=[{"role": "user", "content": [document, found]}])
    assert "notes\napple\nt\na.txt\npear" in _prompt(stage)
    file = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}
    with pytest.raises(anthropic.BadRequestError, match="text only"):
        _messages(base, messages=[{"role": "user", "content": [file]}])


def test_tools_that_the_provider_runs_are_not_offered_and_those_of_clients_are(stage: Backstage, base: str) -> None:
    tools = [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "custom", "name": "mine", "input_schema": {"type": "object", "properties": {}}},
    ]
    _messages(base, tools=tools)
    assert "web_search" not in _prompt(stage)
    assert '"name": "bash", "parameters": {"type": "object", "properties": {"command"' in _prompt(stage)
    assert '"name": "mine"' in _prompt(stage)
    server = {"type": "url", "url": "http://localhost", "name": "x"}
    with (
        anthropic.Anthropic(base_url=base, api_key="none") as client,
        pytest.raises(anthropic.BadRequestError, match="mcp_servers is not supported"),
    ):
        client.beta.messages.create(model="m", max_tokens=9, messages=GO, mcp_servers=[server])


@pytest.mark.parametrize("name", ["mcp_servers", "container", "compaction"])
def test_what_a_provider_would_do_besides_sampling_is_refused(base: str, name: str) -> None:
    refused = httpx.post(f"{base}/v1/messages", json={"messages": GO, "max_tokens": 9, name: {"type": "any"}}).json()
    assert refused["error"]["message"].startswith(f"{name} is not supported: ")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"functions": [{"name": "f"}]}, "offer tools instead"),
        ({"modalities": ["text", "audio"]}, "text only"),
        ({"stop": ["x"] * 33}, "at most 32"),
        ({"max_completion_tokens": "many"}, "must be int"),
        ({"messages": "go"}, "must be list"),
    ],
)
def test_what_chat_cannot_serve_is_refused_with_the_reason(base: str, changes: dict, word: str) -> None:
    refused = httpx.post(f"{base}/v1/chat/completions", json={"model": "m", "messages": GO} | changes)
    assert refused.status_code == 400
    assert word in refused.json()["error"]["message"]


def test_null_content_an_absent_one_and_an_empty_text_are_the_same(stage: Backstage, base: str) -> None:
    function = {"name": "bash", "arguments": "{}"}
    call = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    result = {"role": "tool", "tool_call_id": "1", "content": "apple"}
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none") as client:
        for content in ({"content": None}, {"content": ""}, {}):
            client.chat.completions.create(model="m", messages=[*GO, call | content, result])
    prompts = [request["input_ids"] for request in stage.engines[0].requests]
    assert prompts[0] == prompts[1] == prompts[2]


def test_wishes_that_the_run_decides_are_recorded_and_not_obeyed(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "done")
    execution, base = stage.execution(run)
    wishes = {"temperature": 0.1, "top_p": 0.5, "tool_choice": "none", "parallel_tool_calls": False}
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none") as client:
        client.chat.completions.create(model="m", messages=GO, **wishes)
        client.responses.create(model="m", input="go", **wishes)
    assert [call.sampling["asked"] for call in stage.calls(execution)] == [wishes, wishes]
    assert {(r["sampling_params"]["temperature"], r["sampling_params"]["top_p"]) for r in engine.requests} == {
        (1.0, 1.0)
    }


CUSTOM_CALL = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "NEEDLE"}}


def _post(base: str, path: str, body: dict) -> httpx.Response:
    return httpx.post(base + path, json={"model": "m", "max_tokens": 9} | body)


def test_a_custom_call_in_a_chat_is_a_call_of_one_string(stage: Backstage, base: str) -> None:
    turn = {"role": "assistant", "content": None, "tool_calls": [CUSTOM_CALL]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    assert _post(base, "/v1/chat/completions", {"messages": [*GO, turn, result]}).status_code == 200
    assert '{"name": "patch", "arguments": {"input": "NEEDLE"}}' in _prompt(stage)


def test_a_refusal_that_comes_back_is_what_was_said(stage: Backstage, base: str) -> None:
    turn = {"role": "assistant", "content": None, "refusal": "I will not."}
    assert _post(base, "/v1/chat/completions", {"messages": [*GO, turn, *GO]}).status_code == 200
    assert "assistant\nI will not.<|im_end|>" in _prompt(stage)


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/v1/chat/completions", {"tool_calls": [{"id": "c1", "type": "mcp", "mcp": {}}]}, "tool_calls[0] must be"),
        ("/v1/chat/completions", {"tool_calls": ["x"]}, "tool_calls[0] must be"),
        ("/v1/chat/completions", {"function_call": {"name": "f", "arguments": "{}"}}, "function_call is not supported"),
        ("/v1/chat/completions", {"audio": {"id": "a"}}, "audio is not supported"),
    ],
)
def test_nothing_that_a_chats_turn_holds_is_dropped_without_a_word(
    stage: Backstage, base: str, path: str, body: dict, why: str
) -> None:
    refused = _post(base, path, {"messages": [*GO, {"role": "assistant", "content": "x"} | body, *GO]})
    assert refused.status_code == 400
    assert why in refused.json()["error"]["message"]


@pytest.mark.parametrize("item", ["web_search_call", "mcp_list_tools", "ghost_snapshot"])
def test_an_input_of_notes_alone_is_refused(stage: Backstage, base: str, item: str) -> None:
    refused = _post(base, "/v1/responses", {"input": [{"type": item, "id": "w"}]})
    assert refused.status_code == 400
    assert "nothing that anybody said" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        ("/v1/chat/completions", lambda schema: {"type": "function", "function": {"name": "f", "parameters": schema}}),
        ("/v1/messages", lambda schema: {"name": "f", "input_schema": schema}),
        ("/v1/responses", lambda schema: {"type": "function", "name": "f", "parameters": schema}),
    ],
)
def test_an_empty_list_stands_for_the_object_that_a_schema_wants(stage: Backstage, base: str, path: str, tool) -> None:
    inner = {"type": "object", "properties": [], "required": []}
    schema = {"type": "object", "properties": {"a": inner}, "$defs": []}
    said = {"messages": GO, "input": "go"}
    assert _post(base, path, said | {"tools": [tool(schema)]}).status_code == 200
    wanted = (
        '{"type": "object", "properties": {"a": {"type": "object", "properties": {}, "required": []}}, "$defs": {}}'
    )
    assert wanted in _prompt(stage)
    assert _post(base, path, said | {"tools": [tool([])]}).status_code == 200
    assert '"parameters": {"type": "object", "properties": {}}' in _prompt(stage)
    refused = _post(base, path, said | {"tools": [tool("string")]})
    assert "the schema of tool 'f' must be an object, not str" in refused.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_a_body_that_is_nested_too_deeply_to_be_written_again_is_refused(
    stage: Backstage, base: str, path: str
) -> None:
    for depth, word in ((120, ""), (200, "over 128 deep"), (5000, "over 128 deep")):
        said = {"model": "m", "max_tokens": 9, "messages": GO, "input": "go", "metadata": "DEEP"}
        body = json.dumps(said).replace('"DEEP"', "[" * depth + "]" * depth)
        answer = httpx.post(base + path, content=body)
        assert (answer.status_code == 200) == (word == ""), answer.text
        assert word in answer.text


def test_arguments_written_as_text_that_are_nested_too_deeply_stay_text(stage: Backstage, base: str) -> None:
    deep = '{"a": ' + "[" * 300 + "]" * 300 + "}"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": deep}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = _post(base, "/v1/chat/completions", {"messages": [*GO, turn, {"role": "tool", "tool_call_id": "c"}]})
    assert answer.status_code == 200
    assert "[" * 300 in _prompt(stage)


def test_a_retry_by_another_dialect_is_another_call(stage: Backstage, base: str) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": GO, "input": "go"}
    first = httpx.post(f"{base}/v1/messages", json=body)
    again = httpx.post(f"{base}/v1/responses", json=body, headers={"x-stainless-retry-count": "1"})
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json()["output"][0]["content"][0]["text"] == "done"
    assert len(stage.engines[0].requests) == 2


def test_a_reply_to_go_on_from_may_have_any_name_and_is_not_found(stage: Backstage, base: str) -> None:
    for name in ("resp_x", "\x00", "'; --", "漢" * 5000):
        asked = _post(base, "/v1/responses", {"input": "go", "previous_response_id": name})
        assert (asked.status_code, asked.json()["error"]["code"]) == (400, "previous_response_not_found")
        thread = {"type": "continue", "previous_message_id": name}
        assert _post(base, "/v1/messages", {"messages": GO, "thread": thread}).status_code == 404


def test_a_long_name_for_a_conversation_is_recorded_in_part(stage: Backstage, base: str) -> None:
    run = stage.run(harness="claude-code", context_tokens=32_000, tokens_per_micro_step=32_000)
    stage.engine(run, "done")
    execution, base = stage.execution(run)
    headers = {"x-claude-code-agent-id": "a" * 500, "x-claude-code-session-id": "s" * 500}
    answer = httpx.post(f"{base}/v1/messages", json={"model": "m", "max_tokens": 9, "messages": GO}, headers=headers)
    assert answer.status_code == 200
    [call] = stage.calls(execution)
    assert (call.state, len(call.conversation)) == ("complete", 100)
