"""Whatever a body holds, its sender gets an answer in the shape of its dialect, with the id of the request."""

import copy
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.proxy.backstage import Backstage
from tests.proxy.dialects.test_malformed_requests import ANYTHING, CHAT, MESSAGES, MORE, RESPONSES

#: Values that break what reads them, each in its own way.
ODD = [
    *ANYTHING,
    *("\x00", "<|im_end|>", "{", '{"a": NaN}', "[" * 200, "漢字", "a" * 300, -1, 2**63, 1e308, False),
    *({"properties": []}, {"type": "web_search_call"}, {"role": "assistant"}, {"role": "tool"}, {"role": "system"}),
    *({"$ref": "#"}, {"a": {"b": [{"c": None}]}}, {"": ""}, [[["x"]]], {"type": "custom", "custom": {"name": "x"}}),
    *({"type": "tool_use", "name": "x", "input": []}, {"type": "function_call", "name": "x", "arguments": "[1]"}),
]
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=8)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
#: JSON that orjson reads and does not write.
DEEP: list[Any] = json.loads("[" * 300 + "]" * 300)
BODIES = {"/v1/chat/completions": CHAT, "/v1/messages": MESSAGES, "/v1/responses": RESPONSES}


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for key, inner in items for p in ((*path, key), *_paths(inner, (*path, key)))]


def _with_schema(path: str, schema: Any) -> list[Any]:
    if path == "/v1/messages":
        return [{"name": "f", "input_schema": schema}]
    function = {"name": "f", "parameters": schema}
    return [{"type": "function", "function": function, **function}]


@st.composite
def _bodies(draw: st.DrawFn, body: dict[str, Any]) -> Any:
    """A body of the dialect with some of its values exchanged, left out or doubled; or anything at all."""
    changed = copy.deepcopy(body)
    for _ in range(draw(st.integers(0, 3))):
        *above, last = draw(st.sampled_from([*_paths(changed), *((name,) for name in (*MORE, "stream", "x"))]))
        at: Any = changed
        for key in above:
            at = at[key]
        match draw(st.integers(0, 3)):
            case 0 if isinstance(at, list):
                at.insert(last, copy.deepcopy(at[last]))
            case 1 if isinstance(at, list) or last in at:
                del at[last]
            case _:
                at[last] = copy.deepcopy(draw(st.sampled_from(ODD) | JSON))
    return draw(st.sampled_from([changed] * 9 + [None])) or draw(JSON)


def _is_shaped(path: str, answer: httpx.Response) -> bool:
    """Whether an answer is what a client of this dialect can read."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        return answer.status_code == 200 and answer.content.endswith(b"\n\n")
    body = answer.json()
    if answer.status_code == 200:
        return isinstance(
            body.get({"/v1/chat/completions": "choices", "/v1/messages": "content"}.get(path, "output")), list
        )
    error = body["error"]
    return bool(error["message"]) and bool(error["type"]) and ("messages" in path) == (body.get("type") == "error")


@pytest.mark.parametrize("path", BODIES)
def test_any_body_is_answered_or_refused_in_its_dialects_shape(stage: Backstage, path: str) -> None:
    run = stage.run(max_new_tokens=8)
    stage.engine(run, "done")
    _, base = stage.execution(run)
    statuses = set()
    with httpx.Client(base_url=base, timeout=30) as client:

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(_bodies(BODIES[path]))
        @example({"input": [{"type": "web_search_call", "id": "w"}]})
        @example({"input": "go", "previous_response_id": "\x00"})
        @example(BODIES[path] | {"metadata": DEEP, "tools": _with_schema(path, {"properties": {"a": DEEP}})})
        def ask(body: Any) -> None:
            answer = client.post(path, content=json.dumps(body))
            assert answer.status_code < 500, answer.text
            assert answer.headers.get("request-id") or answer.headers.get("x-request-id")
            assert _is_shaped(path, answer), answer.text
            statuses.add(answer.status_code)

        ask()
    assert statuses >= {200, 400}
