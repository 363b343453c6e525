"""Bodies that are allowed in size and would take the host's memory: refused in their dialect, with little memory."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents.proxy.http import MAX_BODY_BYTES
from tests.proxy import policies
from tests.proxy.backstage import Backstage, backstage
from tests.proxy.processes import ProxyProcess, proxy_process

#: What the process may grow by, over everything that one test sends.
MAX_GROWTH_KIB = 1 << 20
CONTEXT = 262_144


@pytest.fixture
def stage(database_url: str) -> Iterator[Backstage]:
    with backstage(database_url) as found:
        yield found


@pytest.fixture
def proxy(database_url: str, tmp_path: Path) -> Iterator[ProxyProcess]:
    with proxy_process(database_url, tmp_path, "proxy-large") as found:
        yield found


def _memory(proxy: ProxyProcess, name: str) -> int:
    """KiB by the kernel's account: VmRSS now, VmHWM at the highest."""
    lines = Path(f"/proc/{proxy.child.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _bases(stage: Backstage, proxy: ProxyProcess, folder: Path, number: int = 1) -> list[str]:
    """Addresses of executions whose policy reads a long context."""
    policy = policies.write(folder / "policy", model_type="qwen3")
    config = json.loads((policy / "config.json").read_text())
    (policy / "config.json").write_text(json.dumps(config | {"max_position_embeddings": CONTEXT}))
    run = stage.run(
        policy_path=str(policy), context_tokens=CONTEXT, policy_context_tokens=CONTEXT, tokens_per_micro_step=CONTEXT
    )
    stage.engine(run, "done")
    return [stage.execution(run)[1].replace(stage.url, proxy.url) for _ in range(number)]


def _filled(body: dict[str, Any], filler: str, num_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The body with its text FILL grown until it has so many bytes."""
    head, tail = json.dumps(body).split("FILL")
    times = (num_bytes - len(head) - len(tail)) // len(filler.encode())
    return head.encode() + filler.encode() * times + tail.encode()


_FILL = [{"role": "user", "content": "FILL"}]
_TOOL = {"type": "function", "function": {"name": "t", "description": "FILL", "parameters": {"type": "object"}}}
GO = [{"role": "user", "content": "go"}]
CHAT = {"model": "m", "messages": _FILL}
#: Every dialect names the limit when a prompt is over it.
TOO_LONG = str(CONTEXT)


#: Enough where only the way to the same limit is another one.
LESS = 8 << 20


def _words() -> bytes:
    return _filled(CHAT, "A ")


def _objects() -> bytes:
    return b'{"model": "m", "messages": [' + b"{}," * (MAX_BODY_BYTES // 3 - 20) + b"{}]}"


def _objects_in_arguments() -> bytes:
    call = {"id": "1", "type": "function", "function": {"name": "t", "arguments": "[" + "{}," * 15_000_000 + "{}]"}}
    asked = {"role": "assistant", "tool_calls": [call]}
    return json.dumps(
        {"model": "m", "messages": [*GO, asked, {"role": "tool", "tool_call_id": "1", "content": "x"}]}
    ).encode()


#: name -> (route, body, what the refusal says)
LARGE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "one text of words": ("chat/completions", _words, TOO_LONG),
    "one text without an end of a word": (
        "messages", lambda: _filled(CHAT | {"max_tokens": 9}, "a"), TOO_LONG
    ),
    "a text that its normal form shrinks": ("chat/completions", lambda: _filled(CHAT, "e\u0301\u0323"), TOO_LONG),
    "a request for its length": ("messages/count_tokens", lambda: _filled(CHAT, "A ", LESS), TOO_LONG),
    "input of the responses dialect": (
        "responses", lambda: _filled({"model": "m", "input": _FILL}, "A ", LESS), TOO_LONG
    ),
    "one tool that says much": (
        "chat/completions", lambda: _filled({"model": "m", "messages": GO, "tools": [_TOOL]}, "A ", LESS), TOO_LONG
    ),
    "many empty objects": ("chat/completions", _objects, "JSON values"),
    "many lists in one another": ("chat/completions", lambda: b"[" * MAX_BODY_BYTES, "JSON values"),
    "few lists, but deep": ("chat/completions", lambda: b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}", "over 128 deep"),
    "many objects in the arguments of a tool": ("chat/completions", _objects_in_arguments, "JSON values"),
}  # fmt: skip


def _said(answer: httpx.Response) -> str:
    """What an error says in its dialect's shape."""
    assert answer.status_code == 400, answer.text[:300]
    message: str = answer.json()["error"]["message"]
    return message


def test_no_large_body_takes_more_than_a_bounded_part_of_the_memory_and_each_is_refused_with_a_reason(
    stage: Backstage, proxy: ProxyProcess, tmp_path: Path
) -> None:
    [base] = _bases(stage, proxy, tmp_path)
    assert httpx.post(f"{base}/v1/chat/completions", json={"model": "m", "messages": GO}, timeout=60).status_code == 200
    before = _memory(proxy, "VmRSS")
    for name, (route, body, reason) in LARGE.items():
        said = _said(httpx.post(f"{base}/v1/{route}", content=body(), timeout=120))
        assert reason in said, f"{name}: {said[:200]}"
        assert _memory(proxy, "VmHWM") - before < MAX_GROWTH_KIB, name
    packed = gzip.compress(_words(), 1)
    answer = httpx.post(
        f"{base}/v1/chat/completions", content=packed, headers={"content-encoding": "gzip"}, timeout=120
    )
    assert TOO_LONG in _said(answer)
    assert _memory(proxy, "VmHWM") - before < MAX_GROWTH_KIB
    assert httpx.post(f"{base}/v1/chat/completions", json={"model": "m", "messages": GO}, timeout=60).status_code == 200


def test_what_follows_an_earlier_response_is_bounded_as_well(
    stage: Backstage, proxy: ProxyProcess, tmp_path: Path
) -> None:
    [base] = _bases(stage, proxy, tmp_path)
    first = httpx.post(f"{base}/v1/responses", json={"model": "m", "input": "go"}, timeout=60).json()
    before = _memory(proxy, "VmRSS")
    body = _filled({"model": "m", "previous_response_id": first["id"], "input": _FILL}, "A ", LESS)
    assert TOO_LONG in _said(httpx.post(f"{base}/v1/responses", content=body, timeout=120))
    assert _memory(proxy, "VmHWM") - before < MAX_GROWTH_KIB


def test_a_prompt_just_over_the_context_still_gets_its_exact_length(
    stage: Backstage, proxy: ProxyProcess, tmp_path: Path
) -> None:
    [base] = _bases(stage, proxy, tmp_path)
    body = {"model": "m", "messages": [{"role": "user", "content": "A " * (CONTEXT // 2 + 1)}]}
    exact = _said(httpx.post(f"{base}/v1/chat/completions", json=body, timeout=120))
    shorter = body | {"messages": [{"role": "user", "content": "A " * (CONTEXT // 2)}]}
    less = _said(httpx.post(f"{base}/v1/chat/completions", json=shorter, timeout=120))
    longer, shorter_by = (int(said.split("resulted in ")[1].split()[0]) for said in (exact, less))
    assert 0 < longer - shorter_by <= 2


def test_many_large_bodies_at_once_wait_for_one_another_and_health_and_small_requests_do_not(
    stage: Backstage, proxy: ProxyProcess, tmp_path: Path
) -> None:
    bases = _bases(stage, proxy, tmp_path, 3)
    before = _memory(proxy, "VmRSS")
    body = _words()
    sent = threading.Barrier(7)

    def large(base: str) -> str:
        sent.wait()
        return _said(httpx.post(f"{base}/v1/chat/completions", content=body, timeout=300))

    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(large, base) for base in (*bases, *bases)]
        sent.wait()
        num_healthy = 0
        while not all(answer.done() for answer in asked):
            assert httpx.get(f"{proxy.url}/health", timeout=10).status_code == 200
            num_healthy += 1
        small = httpx.post(f"{bases[0]}/v1/chat/completions", json={"model": "m", "messages": GO}, timeout=60)
    assert small.status_code == 200
    assert num_healthy > 3
    assert all(TOO_LONG in answer.result() for answer in asked)
    assert _memory(proxy, "VmHWM") - before < MAX_GROWTH_KIB
