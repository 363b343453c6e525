"""New weights in an engine: calls go on under the key of the weights that serve them, and no other."""

import asyncio
import json
import threading

import httpx
import pytest
from django.db import connection

from agents.models import Run
from agents.proxy.scripted import Turn
from scheduler.models import Cell
from tests.proxy.backstage import Backstage, Engine, delta, sampled
from tests.support.waiting import wait_for

LONG = "a reply of quite a few words, long enough to be cut in the middle"
GO = [{"role": "user", "content": "go"}]


def _stream(base: str) -> str:
    body = {"model": "m", "messages": GO, "stream": True}
    reply = httpx.post(f"{base}/v1/chat/completions", json=body, timeout=60).text
    assert reply.rstrip().endswith("data: [DONE]"), reply
    chunks = [json.loads(line[6:]) for line in reply.splitlines() if line.startswith("data: {")]
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)


def _keys(engine: Engine) -> list[str]:
    return [request["extra_key"] for request in engine.requests]


def _cell(run: Run, **columns: object) -> None:
    Cell.objects.filter(run=run).update(**columns)
    if threading.current_thread() is not threading.main_thread():
        connection.close()


def test_a_call_that_was_aborted_for_new_weights_goes_on_in_its_engine_under_their_key(stage: Backstage) -> None:
    run = stage.run()
    ids = sampled(LONG)
    is_halfway, may_go_on = threading.Event(), threading.Event()

    async def halfway() -> None:
        is_halfway.set()
        await asyncio.to_thread(may_go_on.wait)

    def rest(input_ids: list[int]) -> Turn:
        return Turn(ids[len(input_ids) - len(engine.requests[0]["input_ids"]) :])

    engine = stage.engine(run, Turn(ids, before={5: halfway}), rest)
    execution, base = stage.execution(run)
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(_stream(base)))
    asking.start()
    assert is_halfway.wait(30)
    _cell(run, phase="weights")
    wait_for(lambda: not any(c.routable for c in stage.app.services.router.cells.values()), "the proxy routes nothing")
    engine.scripted.abort("")
    may_go_on.set()
    wait_for(lambda: stage.app.services.router.num_waiting, "the call waits for the new weights")
    engine.scripted.weight_version = "4"
    _cell(run, phase="", weight_version=4, weight_hash="def")
    asking.join()

    assert answers == [LONG]
    [call] = stage.calls(execution)
    num_kept = len(engine.requests[1]["input_ids"]) - len(engine.requests[0]["input_ids"])
    assert 5 <= num_kept < len(ids)
    assert delta(call).output_ids.tolist() == ids
    assert call.versions == [[3, 0, num_kept], [4, num_kept, len(ids)]]
    assert _keys(engine) == [f"{run.pk}:3:abc", f"{run.pk}:4:def"]
    assert [move[:2] for move in call.sampling["moves"]] == [[0, num_kept]]


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_that_is_served_by_other_weights_than_its_key_names_is_sent_again(
    stage: Backstage, stream: bool
) -> None:
    """The proxy's view of the cells is a moment old: the engine had new weights before the request came."""
    run = stage.run(max_new_tokens=512)
    ids = sampled(LONG)
    engine = stage.engine(run, Turn(ids), Turn(ids[1:]))
    engine.scripted.weight_version = "4"
    engine.scripted.gate = lambda: _renew(run, engine)
    execution, base = stage.execution(run)
    body = {"model": "m", "messages": GO, "stream": stream}
    assert httpx.post(f"{base}/v1/chat/completions", json=body, timeout=60).status_code == 200
    [call] = stage.calls(execution)
    assert delta(call).output_ids.tolist() == ids
    assert call.versions == [[4, 0, len(ids)]]
    assert _keys(engine) == [f"{run.pk}:3:abc", f"{run.pk}:4:def"]


async def _renew(run: Run, engine: Engine) -> None:
    """After the first token, the cell's row tells the version that the engine has had all along."""
    engine.scripted.gate = None
    await asyncio.to_thread(_cell, run, weight_version=4, weight_hash="def")
