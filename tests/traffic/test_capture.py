"""Captures of real clients: what is written down, what is not, and that a replay reads it (openai, anthropic)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from agents.proxy.rendering import BUNDLED_POLICY, rendering
from agents.proxy.traffic.capturing import Capture, Server
from agents.proxy.traffic.replay import replay
from agents.proxy.traffic.scripted import BadScript, ScriptedModel

SECRET = "sk-live-0123456789abcdefghij"
SYSTEM = "You are a careful agent. " + "Obey the rules of this house. " * 40
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command on this machine and wait for its end. " * 4,
        "parameters": {"type": "object", "properties": {"command": {"type": "string", "description": "what to run"}}},
    },
}
SCRIPT = {
    "conversations": {
        "[[MAIN]]": [
            {"reasoning": "hm", "text": "Look.", "tools": [{"name": "*shell*", "input": "ls"}]},
            {"fail": 503},
            {"text": "Go.", "tools": [{"name": "delegate", "input": {"job": "[[SUB:a]] read the long file"}}]},
            {"text": "All of it is done."},
        ],
        "[[SUB:a]]": [{"text": "It says apple."}],
    }
}
DELEGATE = {
    "type": "function",
    "function": {"name": "delegate", "parameters": {"type": "object", "properties": {"job": {"type": "string"}}}},
}


@contextmanager
def serving(out: Path, upstream: str = "", full: bool = False, script: Any = SCRIPT) -> Iterator[str]:
    """A capturing server in a thread; yields its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    capture = Capture(out, full)
    server = Server(capture, upstream, ScriptedModel(script))
    port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(10)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        capture.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def converse(base: str) -> None:
    """A main agent with one sub-agent and a compaction, as the reference harness would have them."""
    with openai.OpenAI(base_url=f"{base}/v1", api_key=SECRET, max_retries=2) as client:

        def ask(messages: list[Any], tools: list[Any], stream: bool) -> dict[str, Any]:
            if stream:
                with client.chat.completions.stream(model="m", messages=messages, tools=tools) as events:
                    message = events.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(model="m", messages=messages, tools=tools).choices[0].message
            return message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})

        main: list[Any] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"[[MAIN]] use {SECRET} and do it"},
        ]
        for stream in (True, False):
            turn = ask(main, [BASH, DELEGATE], stream)
            main += [turn, {"role": "tool", "tool_call_id": turn["tool_calls"][0]["id"], "content": "x" * 3_000}]
        helper = [
            {"role": "system", "content": "You are a helper."},
            {"role": "user", "content": "[[SUB:a]] read the long file"},
        ]
        ask(helper, [BASH], True)
        question = {"role": "user", "content": "Summarize the conversation so far. Text only, do not call any tools."}
        summary = ask([*main, question], [BASH, DELEGATE], False)["content"]
        ask([main[0], {"role": "user", "content": f"So far: {summary}"}], [BASH, DELEGATE], True)


def test_what_a_client_says_comes_back_from_a_replay_with_its_roles(tmp_path: Path) -> None:
    out = tmp_path / "capture.jsonl"
    with serving(out) as base:
        converse(base)
    found = replay(out, "auto", rendering(BUNDLED_POLICY))
    assert [row.role for row in found.rows] == ["main", "main", "main", "sub-agent", "main-summary", "main"]
    assert [row.branch_reason for row in found.rows] == [None, None, None, None, None, "compaction"]
    assert (found.totals.false_forks, found.notes, found.num_bad_lines) == (0, [], 0)
    scripts = [line["script"] for line in lines_of(out) if line["kind"] == "response"]
    assert scripts == ["main#0", "main#1", "main#2", "sub:a#0", "compact:main", "main#3"]
    assert [line["status"] for line in lines_of(out) if line["kind"] == "response"] == [200, 503, 200, 200, 200, 200]


def test_credentials_and_long_prompts_are_not_written_down(tmp_path: Path) -> None:
    out = tmp_path / "capture.jsonl"
    with serving(out) as base:
        converse(base)
    text = out.read_text()
    assert SECRET not in text
    assert SYSTEM[:160] not in text
    assert "Run a command on this machine and wait" not in text
    assert "what to run" not in text
    body = lines_of(out)[0]["body"]
    assert body["messages"][0]["content"].startswith("You are a careful agent. Obey the rules of this house.")
    assert "<system prompt 1225 chars, sha256 " in body["messages"][0]["content"]
    assert body["tools"][0]["function"]["parameters"]["properties"] == {"command": {}}
    assert "[[MAIN]] use <redacted> and do it" in text


def test_a_full_capture_keeps_prompts_and_still_no_credentials(tmp_path: Path) -> None:
    out = tmp_path / "capture.jsonl"
    with serving(out, full=True) as base:
        converse(base)
    assert lines_of(out)[0]["body"]["messages"][0]["content"] == SYSTEM
    assert SECRET not in out.read_text()


def test_traffic_that_goes_on_to_an_upstream_is_captured_as_the_upstream_has_it(tmp_path: Path) -> None:
    near, far = tmp_path / "near.jsonl", tmp_path / "far.jsonl"
    with serving(far) as upstream, serving(near, upstream) as base:
        converse(base)
    drop = ("t", "dur", "script", "headers", "inflight")
    strip = [[{k: v for k, v in line.items() if k not in drop} for line in lines_of(file)] for file in (near, far)]
    assert strip[0] == strip[1]
    assert all(line["reply"] for line in strip[0] if line["kind"] == "response" and line["status"] == 200)


def test_the_other_dialects_and_side_paths_are_captured_too(tmp_path: Path) -> None:
    out = tmp_path / "capture.jsonl"
    with serving(out, script={"conversations": {"": [{"reasoning": "so", "text": "Yes, that is right."}]}}) as base:
        with openai.OpenAI(base_url=f"{base}/v1", api_key="x") as client:
            assert client.responses.create(model="m", input="is it?").output_text == "Yes, that is right."
            with client.responses.stream(model="m", input="is it?") as events:
                assert events.get_final_response().output_text == "Yes, that is right."
            assert client.models.list().data[0].id == "policy"
        with anthropic.Anthropic(base_url=base, api_key="x") as client:
            asked: Any = {"model": "m", "messages": [{"role": "user", "content": "is it?"}]}
            with client.messages.stream(max_tokens=9, **asked) as stream:
                assert stream.get_final_text() == "Yes, that is right."
            assert client.messages.count_tokens(**asked).input_tokens > 0
        assert httpx.head(f"{base}/api/hello").status_code == 200
    replies = [line["reply"] for line in lines_of(out) if line["kind"] == "response"]
    assert [[item["type"] for item in reply["output"]] for reply in replies[:2]] == [["reasoning", "message"]] * 2
    assert replies[3]["content"][0]["thinking"] == "so"
    assert replies[3]["content"][1] == {"type": "text", "text": "Yes, that is right."}
    found = replay(out, "auto", rendering(BUNDLED_POLICY))
    assert [row.role for row in found.rows] == ["main", "main", "auxiliary", "main", "auxiliary", "auxiliary"]


def test_a_request_that_only_names_the_reply_it_follows_is_replayed_with_all_that_was_said(tmp_path: Path) -> None:
    out = tmp_path / "capture.jsonl"
    script = {"conversations": {"": [{"text": "Yes, that is right."}]}}
    with serving(out, script=script) as base, openai.OpenAI(base_url=f"{base}/v1", api_key="x") as client:
        first = client.responses.create(model="m", input="is it?")
        client.responses.create(model="m", input="sure?", previous_response_id=first.id)
        client.responses.create(model="m", input="sure?", previous_response_id="resp_nobody")
    found = replay(out, "auto", rendering(BUNDLED_POLICY))
    assert [(row.parent_seq, row.prefix_kept) for row in found.rows] == [(None, True), (1, True), (None, True)]
    assert found.rows[1].shared_tokens == found.rows[0].new_tokens
    [note] = found.notes
    assert "not in the capture" in note


def test_an_upstream_that_does_not_answer_is_an_error_for_the_client_and_a_line_of_the_capture(tmp_path: Path) -> None:
    out = tmp_path / "capture.jsonl"
    with serving(out, upstream="http://127.0.0.1:9") as base:
        assert httpx.post(f"{base}/v1/chat/completions", json={}).status_code == 502
    request, response = lines_of(out)
    assert (request["kind"], response["status"]) == ("request", 502)
    assert "does not answer" in response["note"]


def test_a_script_without_steps_is_refused() -> None:
    with pytest.raises(BadScript):
        ScriptedModel({"conversations": {"x": []}})
