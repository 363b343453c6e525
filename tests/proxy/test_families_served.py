"""A running proxy takes what harnesses send for policies of every family, and later calls begin with recorded ids."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from agents.proxy.rendering import rendering
from tests.proxy import policies
from tests.proxy.backstage import Backstage, delta, full_input

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"at": {"description": "Where."}}}
CHAT_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
RESPONSES_TOOLS = [{"type": "function", "name": "look", "parameters": SCHEMA}]
MESSAGES_TOOLS = [{"name": "look", "input_schema": SCHEMA}]


def _call(id: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}}


#: path -> (name of the list of messages, the rest of the body, opening, what follows the reply).
WIRES: dict[str, tuple[str, dict[str, Any], list[Any], list[Any]]] = {
    "/v1/chat/completions": (
        "messages",
        {"tools": CHAT_TOOLS, "max_tokens": 16},
        [
            {"role": "system", "content": "apple"},
            {"role": "developer", "content": "banana"},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [_call("a", '{"at": 1}'), _call("b", "no object")]},
            {"role": "tool", "tool_call_id": "b", "content": "cherry"},
            {"role": "tool", "tool_call_id": "a", "content": ""},
            {"role": "developer", "content": "damson"},
        ],
        [
            {"role": "tool", "tool_call_id": "gone", "content": "elderberry"},
            {"role": "assistant", "content": "of the harness"},
            {"role": "system", "content": "fig"},
        ],
    ),
    "/v1/messages": (
        "messages",
        {"tools": MESSAGES_TOOLS, "max_tokens": 16, "system": [{"type": "text", "text": "apple"}]},
        [
            {"role": "user", "content": "go"},
            {"role": "system", "content": "banana"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "cherry"},
                    {"type": "tool_use", "id": "a", "name": "look", "input": {"at": [None]}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": ""}]},
            {"role": "system", "content": "damson"},
        ],
        [{"role": "user", "content": "elderberry"}, {"role": "system", "content": "fig"}],
    ),
    "/v1/responses": (
        "input",
        {"tools": RESPONSES_TOOLS, "max_output_tokens": 16, "instructions": "apple"},
        [
            {"type": "message", "role": "developer", "content": "banana"},
            {"type": "message", "role": "developer", "content": "cherry"},
            {"type": "message", "role": "user", "content": "go"},
            {"type": "message", "role": "developer", "content": "damson"},
        ],
        [
            {"type": "message", "role": "developer", "content": "elderberry"},
            {"type": "function_call_output", "call_id": "gone", "output": "fig"},
        ],
    ),
}
SAID = ("apple", "banana", "cherry", "damson", "elderberry", "fig")


def _reply(path: str, answer: Any) -> list[Any]:
    """The reply as it goes back in the next request."""
    if path == "/v1/responses":
        return list(answer["output"])
    if path == "/v1/messages":
        return [{"role": "assistant", "content": answer["content"]}]
    return [answer["choices"][0]["message"]]


@pytest.mark.parametrize("family", ["qwen3.5", "qwen3.8", "nemotron-3", "llama-3", "minimax-m2", "kimi-k2.5"])
def test_histories_that_a_template_refuses_are_served_and_extended(
    stage: Backstage, tmp_path: Path, family: str
) -> None:
    folder = policies.write(tmp_path, known_as=policies.KNOWN_AS[family])
    run = stage.run(policy_path=str(folder))
    stage.engine(run, "read")
    for path, (name, rest, opening, later) in WIRES.items():
        execution, base = stage.execution(run)
        first = httpx.post(base + path, json={"model": "m", **rest, name: opening}, timeout=60)
        assert first.status_code == 200, first.text
        messages = [*opening, *_reply(path, first.json()), *later]
        second = httpx.post(base + path, json={"model": "m", **rest, name: messages}, timeout=60)
        assert second.status_code == 200, second.text
        calls = stage.calls(execution)
        assert [(call.parent_number, call.false_fork) for call in calls] == [(None, False), (0, False)]
        before, after = full_input(calls[0]) + delta(calls[0]).output_ids.tolist(), full_input(calls[1])
        assert after[: len(before)] == before
        text = rendering(folder).tokenizer.decode(after)
        assert [word for word in SAID if word not in text] == []
