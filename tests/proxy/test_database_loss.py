"""A database that goes away: what is acknowledged is committed, what cannot be committed is not acknowledged."""

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest

from tests.proxy.backstage import Backstage, delta, sampled
from tests.proxy.relay import Relay
from tests.support.waiting import wait_for

GO = [{"role": "user", "content": "go"}]
LONG = "read the file and write the word"


@pytest.fixture
def relay(stage: Backstage) -> Iterator[Relay]:
    """The stage's proxy reaches its database through this wire."""
    found = Relay(stage.database_url)
    stage.loop.call(found.mend())
    yield found
    stage.loop.call(found.mend())
    stage.stop_proxy()
    stage.loop.call(found.cut())


def _start(stage: Backstage, relay: Relay, **options: Any) -> None:
    stage.stop_proxy()
    stage.start_proxy(database_url=relay.url, connection_within_s=0.5, **options)


def _ask(base: str, **options: Any) -> httpx.Response:
    return httpx.post(f"{base}/v1/chat/completions", json={"model": "m", "messages": GO} | options, timeout=60)


def _cut_before_the_second_token(stage: Backstage, relay: Relay) -> None:
    seen = []

    async def gate() -> None:
        seen.append(True)
        if len(seen) == 2:
            await relay.cut()

    stage.engines[0].scripted.gate = gate


def test_a_finished_call_waits_for_the_database_and_is_acknowledged_once_it_is_committed(
    stage: Backstage, relay: Relay
) -> None:
    _start(stage, relay)
    run = stage.run()
    stage.engine(run, LONG)
    execution, base = stage.execution(run)
    _cut_before_the_second_token(stage, relay)
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(_ask(base, stream=True)))
    asking.start()
    wait_for(lambda: stage.app.services.spool.num_spooled, "the call waits in the spool")
    assert not answers
    assert stage.calls(execution) == []
    stage.loop.call(relay.mend())
    asking.join()
    assert answers[0].text.rstrip().endswith("data: [DONE]")
    assert [delta(call).output_ids.tolist() for call in stage.calls(execution)] == [sampled(LONG)]
    assert stage.app.services.spool.num_spooled == stage.app.services.spool.spooled_bytes == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_that_cannot_be_committed_in_time_is_told_as_an_error_and_its_retry_is_recorded(
    stage: Backstage, relay: Relay, stream: bool
) -> None:
    _start(stage, relay, record_within_s=0.5)
    run = stage.run()
    stage.engine(run, LONG)
    execution, base = stage.execution(run)
    _cut_before_the_second_token(stage, relay)
    answer = _ask(base, stream=stream)
    assert "[DONE]" not in answer.text
    if stream:
        last = orjson.loads(answer.text.strip().rpartition("data: ")[2])
        assert last["error"]["code"] == "overloaded"
    else:
        assert (answer.status_code, 1 <= int(answer.headers["retry-after"]) <= 4) == (503, True)
    assert stage.calls(execution) == []
    stage.engines[0].scripted.gate = None
    stage.loop.call(relay.mend())
    assert wait_for(lambda: (r := _ask(base)).status_code == 200 and r, "the proxy records again")
    assert [call.state for call in stage.calls(execution)] == ["complete"]


def test_a_commit_whose_outcome_is_unknown_is_repeated_and_recorded_once(stage: Backstage, relay: Relay) -> None:
    _start(stage, relay)
    run = stage.run()
    stage.engine(run, LONG)
    execution, base = stage.execution(run)
    swallowed = []

    async def gate() -> None:
        if not swallowed:
            swallowed.append(True)
            relay.swallows = True

    stage.engines[0].scripted.gate = gate
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(_ask(base)))
    asking.start()
    wait_for(lambda: stage.calls(execution), "the call is committed although nobody heard of it")
    assert not answers
    relay.swallows = False
    asking.join()
    assert answers[0].status_code == 200
    assert len(stage.calls(execution)) == 1


def test_new_requests_outlast_a_short_absence_and_then_get_503_with_retry_after_in_their_dialects_shape(
    stage: Backstage, relay: Relay
) -> None:
    _start(stage, relay, admit_within_s=0.5)
    run = stage.run()
    stage.engine(run, "done")
    _, base = stage.execution(run)
    assert _ask(base).status_code == 200
    stage.loop.call(relay.cut())
    refused = _ask(base)
    assert (refused.status_code, 1 <= int(refused.headers["retry-after"]) <= 4) == (503, True)
    assert refused.json()["error"]["type"] == "server_error"
    body = {"model": "m", "max_tokens": 9, "messages": GO}
    other = httpx.post(f"{base}/v1/messages", json=body, timeout=60)
    assert (other.status_code, other.json()["type"]) == (other.status_code, "error")
    assert other.status_code in (503, 529)
    stage.loop.call(relay.mend())
    assert wait_for(lambda: _ask(base).status_code == 200, "requests are served again")


def test_no_further_call_is_admitted_while_the_spool_is_full(stage: Backstage, relay: Relay) -> None:
    _start(stage, relay)
    stage.app.services.spool.max_calls = 1
    run = stage.run()
    engine = stage.engine(run, LONG)
    execution, base = stage.execution(run)
    _cut_before_the_second_token(stage, relay)
    asking = threading.Thread(target=_ask, args=(base,))
    asking.start()
    wait_for(lambda: stage.app.services.spool.is_full, "the spool is full")
    num_requests = len(engine.requests)
    assert _ask(base).status_code == 503
    assert len(engine.requests) == num_requests
    stage.loop.call(relay.mend())
    asking.join()
    assert len(stage.calls(execution)) == 1
    assert wait_for(lambda: _ask(base).status_code == 200, "calls are admitted again")
