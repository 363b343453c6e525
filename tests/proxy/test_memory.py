"""What a session holds: its unique tokens. What it may forget: everything that the database can give back."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agents.proxy.live import CALLS_KEPT
from agents.proxy.registry import MAX_LOADING
from agents.proxy.store import Store
from tests.proxy.backstage import Backstage, full_input
from tests.support.waiting import wait_for

GO = [{"role": "user", "content": "go"}]


def _ask(base: str, messages: list[dict[str, Any]]) -> str:
    answer = httpx.post(f"{base}/v1/chat/completions", json={"model": "m", "messages": messages}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


def _converse(base: str, messages: list[dict[str, Any]], rounds: int) -> None:
    for _ in range(rounds):
        said = _ask(base, messages)
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "read the file again"}]


def _session(stage: Backstage) -> Any:
    [session] = stage.app.sessions._by_key.values()
    return session


def test_a_session_holds_every_token_once_however_often_it_was_read(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "the file was read")
    execution, base = stage.execution(run)
    _converse(base, list(GO), rounds=12)
    calls = stage.calls(execution)
    tokens, num_bytes = _session(stage).size()
    assert tokens == sum(c.input_tokens - c.prefix_tokens + c.output_tokens for c in calls)
    assert tokens == calls[-1].input_tokens + calls[-1].output_tokens
    assert sum(c.input_tokens for c in calls) > 5 * tokens
    arrays = [a for c in _session(stage).index.calls for a in (c.new_input_ids, c.output_ids)]
    assert sum(a.nbytes for a in arrays) == 4 * tokens
    assert all(a.base is None or a.base.nbytes == a.nbytes for a in arrays)
    assert num_bytes > 4 * tokens


def test_a_call_that_is_over_keeps_neither_its_body_nor_its_prompt(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "done")
    _, base = stage.execution(run)
    _converse(base, list(GO), rounds=CALLS_KEPT + 4)
    recent = list(_session(stage).live.recent.values())
    assert len(recent) <= CALLS_KEPT + 1
    wait_for(lambda: not any(call.has_client for call in recent), "the last one's answer is sent to its end")
    for call in recent:
        assert (call.raw_request, call.request.messages, call.prepared.messages) == (b"", [], [])
        assert len(call.prepared.input_ids) == len(call.prepared.new_input_ids) == len(call.sampled.ids) == 0
        assert len(call.events) == 2


def test_idle_sessions_over_the_limit_are_dropped_and_rebuilt_without_a_fork(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "the file was read")
    execution, base = stage.execution(run)
    messages = list(GO)
    _converse(base, messages, rounds=3)
    _, other = stage.execution(run)
    _ask(other, GO)
    sessions = stage.app.sessions

    async def shed(now_s: float) -> int:
        sessions.shed(asyncio.get_running_loop().time() + now_s)
        return len(sessions)

    assert stage.loop.call(shed(60.0)) == 2
    sessions.max_bytes = 1
    assert stage.loop.call(shed(0.0)) == 2
    assert stage.loop.call(shed(60.0)) == 0
    _converse(base, messages, rounds=1)
    calls = stage.calls(execution)
    assert [(c.number, c.parent_number, c.false_fork) for c in calls] == [
        (0, None, False), (1, 0, False), (2, 1, False), (3, 2, False),
    ]  # fmt: skip
    assert engine.requests[-1]["input_ids"] == full_input(calls[3])


def test_clients_that_all_come_at_once_have_their_sessions_rebuilt_a_few_at_a_time(
    stage: Backstage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stage.run()
    stage.engine(run, "done")
    bases = [stage.execution(run)[1] for _ in range(4 * MAX_LOADING)]
    original, running, seen = Store.calls, [0], [0]

    async def watched(self: Store, execution: int, attempt: int) -> list[Any]:
        running[0] += 1
        seen.append(running[0])
        await asyncio.sleep(0.02)  # the others arrive meanwhile
        try:
            return await original(self, execution, attempt)
        finally:
            running[0] -= 1

    monkeypatch.setattr(Store, "calls", watched)
    with ThreadPoolExecutor(len(bases)) as pool:
        assert list(pool.map(lambda base: _ask(base, GO), bases)) == ["done"] * len(bases)
    assert 1 < max(seen) <= MAX_LOADING
    assert len(seen) == 1 + len(bases)
