"""Large bodies, many streams at once, slow clients, and an event loop that is never kept."""

import asyncio
import json
import socket
import threading
from typing import Any

import aiohttp
import httpx
import pytest

from agents.proxy import call as call_module
from agents.proxy import finished, room
from agents.proxy.finished import FinishedCall
from agents.proxy.history import CallHistory
from agents.proxy.http import MAX_BODY_BYTES
from agents.proxy.parsing import ReplyParser
from agents.proxy.scripted import Turn
from agents.proxy.store import CallRow
from agents.proxy.tokenizer import PolicyTokenizer
from tests.proxy.backstage import Backstage, delta, sampled
from tests.proxy.gate import Gate
from tests.support.waiting import wait_for

GO = [{"role": "user", "content": "go"}]
LONG = "read the file and write the word"


def _body(**options: Any) -> dict[str, Any]:
    return {"model": "m", "messages": GO} | options


def test_a_body_of_64_mib_is_served_and_one_byte_more_gets_413_in_its_dialects_shape(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "done")
    execution, base = stage.execution(run)
    body = json.dumps(_body(max_tokens=9)).encode()
    whole = body + b" " * (MAX_BODY_BYTES - len(body))
    assert httpx.post(f"{base}/v1/chat/completions", content=whole, timeout=120).status_code == 200
    for route, is_too_large in (
        ("chat/completions", lambda answer: answer["error"]["code"] == "request_too_large"),
        ("messages", lambda answer: answer["error"]["type"] == "request_too_large"),
    ):
        refused = httpx.post(f"{base}/v1/{route}", content=whole + b" ", timeout=120)
        assert refused.status_code == 413
        assert is_too_large(refused.json()), refused.text
        assert "64 MiB" in refused.json()["error"]["message"]
    assert len(stage.calls(execution)) == 1


def test_256_streams_at_once_are_answered_and_recorded_token_by_token(stage: Backstage) -> None:
    run = stage.run(max_calls_per_cell=1000)
    scripted = stage.engine(run, Turn(sampled(LONG))).scripted
    everybody = asyncio.Event()

    async def gate() -> None:
        if len(scripted.running) == 256:
            everybody.set()
        await everybody.wait()

    scripted.gate = gate
    pairs = [stage.execution(run) for _ in range(256)]

    async def one(session: aiohttp.ClientSession, base: str) -> str:
        async with session.post(f"{base}/v1/chat/completions", data=json.dumps(_body(stream=True))) as response:
            return (await response.read()).decode()

    async def all_at_once() -> list[str]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            return await asyncio.gather(*(one(session, base) for _, base in pairs))

    answers = asyncio.run(all_at_once())
    assert all(answer.rstrip().endswith("data: [DONE]") for answer in answers)
    for execution, _ in pairs:
        [call] = stage.calls(execution)
        assert (call.state, delta(call).output_ids.tolist()) == ("complete", sampled(LONG))


def test_the_event_loop_neither_tokenises_nor_assembles_nor_compresses(
    stage: Backstage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "LONG_PROMPT_TOKENS", 1)
    run = stage.run()
    stage.engine(run, Turn(sampled("done")))
    _, base = stage.execution(run)
    threads: dict[str, set[int]] = {}
    for owner, name in (
        (PolicyTokenizer, "encode"),
        (ReplyParser, "finish"),
        (CallHistory, "prepare"),
        (call_module, "payload"),
        (finished, "encode_call"),
        (FinishedCall, "prior_call"),
        (CallRow, "encode"),
    ):
        original = getattr(owner, name)

        def watched(
            *values: Any, _original: Any = original, _owner: Any = owner, _name: str = name, **options: Any
        ) -> Any:
            threads.setdefault(f"{_owner.__name__}.{_name}", set()).add(threading.get_ident())
            return _original(*values, **options)

        monkeypatch.setattr(owner, name, watched)
    assert httpx.post(f"{base}/v1/chat/completions", json=_body()).status_code == 200
    assert len(threads) == 7
    loop_thread = stage.loop.call(_ident())
    assert [name for name, where in threads.items() if loop_thread in where] == []


async def _ident() -> int:
    return threading.get_ident()


def test_health_answers_while_a_prompt_is_being_tokenised(stage: Backstage, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stage.run()
    stage.engine(run, "done")
    _, base = stage.execution(run)
    assert httpx.post(f"{base}/v1/chat/completions", json=_body()).status_code == 200
    begun, release = threading.Event(), threading.Event()
    original = PolicyTokenizer.encode

    def slow(self: PolicyTokenizer, text: str, **options: Any) -> list[int]:
        begun.set()
        assert release.wait(60)
        return original(self, text, **options)

    monkeypatch.setattr(PolicyTokenizer, "encode", slow)
    answers: list[int] = []
    request = _body(messages=[{"role": "user", "content": "a prompt that takes its time"}])
    asking = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{base}/v1/chat/completions", json=request, timeout=90).status_code)
    )
    asking.start()
    assert begun.wait(60)
    assert [httpx.get(f"{stage.url}/health").status_code for _ in range(5)] == [200] * 5
    assert not answers
    release.set()
    asking.join()
    assert answers == [200]


def test_a_client_that_reads_nothing_holds_up_neither_the_recording_nor_others(stage: Backstage) -> None:
    run = stage.run(context_tokens=4096, max_new_tokens=3000, policy_context_tokens=4000)
    ids = [*sampled(LONG, close=False) * 300]
    stage.engine(run, Turn(ids[:2900], tokens_per_chunk=50), "done")
    execution, base = stage.execution(run)
    host, port = stage.url.removeprefix("http://").split(":")
    body = json.dumps(_body(stream=True)).encode()
    path = base.removeprefix(stage.url)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        client.sendall(
            f"POST {path}/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        [call] = wait_for(lambda: stage.calls(execution), "the call is recorded although nobody reads it")
        assert delta(call).output_ids.tolist() == ids[:2900]
        assert httpx.post(f"{base}/v1/chat/completions", json=_body(max_tokens=5), timeout=30).status_code == 200
    assert len(stage.calls(execution)) == 2


def test_an_execution_that_has_many_requests_open_gets_no_further_one_and_others_do(
    stage: Backstage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MAX_OPEN_REQUESTS", 2)
    run = stage.run()
    engine = stage.engine(run, "done")
    gate = Gate(stage, engine)
    (_, many), (_, other) = stage.execution(run), stage.execution(run)
    statuses: list[int] = []

    def ask(base: str, text: str) -> int:
        body = _body(messages=[{"role": "user", "content": text}])
        return httpx.post(f"{base}/v1/chat/completions", json=body, timeout=60).status_code

    asking = [
        threading.Thread(target=lambda n=n: statuses.append(ask(many, f"go {n}")))  # type: ignore[misc]
        for n in range(2)
    ]
    for one in asking:
        one.start()
    wait_for(lambda: len(engine.scripted.running), "both requests are at the engine", until=lambda n: n == 2)
    assert ask(many, "go 3") == 503
    gate.open()
    assert ask(other, "go") == 200
    for one in asking:
        one.join()
    assert statuses == [200, 200]
    assert ask(many, "go 3") == 200
