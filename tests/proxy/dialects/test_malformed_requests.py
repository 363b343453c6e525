"""Whatever a body holds, a dialect reads it or says why not; what it reads can be rendered and matched."""

import copy
from typing import Any

import pytest

from agents.proxy import canonical
from agents.proxy.canonical import BadRequest
from agents.proxy.dialects import ANTHROPIC_MESSAGES, OPENAI_CHAT, OPENAI_RESPONSES
from agents.proxy.dialects.base import Dialect
from tests.proxy.backstage import policy

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
FUNCTION = {"name": "bash", "description": "Run.", "parameters": SCHEMA}
CHAT = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": "You are an agent."},
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "apple"},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
    "stop": ["x"],
    "stream_options": {"include_usage": True},
    "max_tokens": 9,
    "modalities": ["text"],
}
MESSAGES = {
    "model": "m",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "You are an agent."}],
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": ""},
                {"type": "tool_use", "id": "1", "name": "bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "apple"}]},
                {"type": "document", "title": "t", "source": {"type": "text", "data": "apple"}},
                {"type": "search_result", "title": "t", "content": [{"type": "text", "text": "apple"}]},
            ],
        },
        {"role": "system", "content": "more"},
    ],
    "tools": [{"name": "bash", "input_schema": SCHEMA}, {"type": "bash_20250124", "name": "sh"}],
    "thinking": {"type": "adaptive"},
    "output_config": {"format": {"type": "json_schema"}},
    "stop_sequences": ["x"],
}
RESPONSES = {
    "model": "m",
    "instructions": "You are an agent.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "read"}]},
        {"type": "function_call", "id": "fc", "call_id": "1", "namespace": "n", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "apple"},
        {"type": "custom_tool_call", "call_id": "2", "name": "apply_patch", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "apple"}]},
        {"type": "local_shell_call", "call_id": "3", "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"type": "local_shell_call_output", "id": "3", "output": "apple"},
        {"type": "shell_call", "call_id": "4", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "4", "output": [{"stdout": "a", "outcome": {"type": "timeout"}}]},
        {"type": "apply_patch_call", "call_id": "5", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "apply_patch_call_output", "call_id": "5", "status": "completed", "output": None},
    ],
    "tools": [
        {"type": "function", "name": "bash", "parameters": SCHEMA},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]},
        {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "definition": "x"}},
        {"type": "local_shell"},
    ],
    "text": {"format": {"type": "text"}},
    "max_output_tokens": 9,
}
BODIES: list[tuple[Dialect, dict[str, Any]]] = [
    (OPENAI_CHAT, CHAT),
    (ANTHROPIC_MESSAGES, MESSAGES),
    (OPENAI_RESPONSES, RESPONSES),
]
ANYTHING: list[Any] = [
    *(None, True, 3, 1.5, "", "x", [], ["x"], [None], [3], [{}], [[]], {}),
    *({"type": []}, {"type": "text", "text": 3}, {"x": []}, [{"type": []}], [{"type": "text"}]),
]
#: Fields that the bodies above leave out.
MORE = ("n", "logit_bias", "functions", "instructions", "stream", "tool_choice", "metadata", "mcp_servers", "prompt")


def _paths(value: Any, path: tuple = ()) -> list[tuple]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(*path, key) for key, _ in items] + [p for key, inner in items for p in _paths(inner, (*path, key))]


@pytest.mark.parametrize(("dialect", "body"), BODIES, ids=lambda value: getattr(value, "name", ""))
def test_a_body_with_anything_anywhere_is_read_or_refused(dialect: Dialect, body: dict) -> None:
    num_read = num_refused = 0
    for path in [*_paths(body), *((name,) for name in MORE)]:
        for value in ANYTHING:
            changed = copy.deepcopy(body)
            at: Any = changed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            try:
                request = dialect.parse(changed)
                assert policy().prompt(request.messages, request.tools)
                keys = [canonical.message_key(message) for message in request.messages]
            except BadRequest:
                num_refused += 1
                continue
            assert len(keys) == len(request.messages)
            assert canonical.context_key(request.tools)
            num_read += 1
    assert min(num_read, num_refused) > 100
