"""What is recorded when things go wrong: clients that leave, engines that break, attempts that end, restarts."""

import threading
from typing import Any

import httpx
import numpy as np
import pytest

from agents.models import Execution
from agents.proxy.live import LiveCall
from agents.proxy.scripted import Fault, Turn, logprob_of
from scheduler.models import Cell
from tests.proxy.backstage import Backstage, delta, full_input, sampled
from tests.proxy.gate import Gate
from tests.support.waiting import wait_for

GO = [{"role": "user", "content": "go"}]
LONG = "read the file and write the word"


def _post(base: str, messages: list[dict] | None = None, **body: Any) -> httpx.Response:
    headers = body.pop("headers", {})
    request = {"model": "m", "messages": messages or GO} | body
    return httpx.post(f"{base}/v1/chat/completions", json=request, headers=headers, timeout=30)


def _text(response: httpx.Response) -> str:
    return response.json()["choices"][0]["message"]["content"]


def test_a_client_that_leaves_does_not_stop_the_recording(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, LONG)
    gate = Gate(stage, engine, after=3)
    execution, base = stage.execution(run)
    with httpx.stream(
        "POST", f"{base}/v1/chat/completions", json={"model": "m", "messages": GO, "stream": True}
    ) as response:
        next(response.iter_bytes())
    gate.open()
    [call] = wait_for(lambda: stage.calls(execution), "the call is recorded")
    assert call.state == "truncated"
    assert delta(call).output_ids.tolist() == sampled(LONG)


def test_a_call_that_nobody_reads_stops_when_its_execution_ends(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, LONG)
    gate = Gate(stage, engine, after=3)
    execution, base = stage.execution(run)
    with httpx.stream(
        "POST", f"{base}/v1/chat/completions", json={"model": "m", "messages": GO, "stream": True}
    ) as response:
        next(response.iter_bytes())
    wait_for(lambda: [r for r in engine.scripted.running.values() if len(r.ids) == 3], "the engine samples for nobody")
    Execution.objects.filter(pk=execution.pk).update(state=Execution.State.EVALUATING)
    [call] = wait_for(lambda: stage.calls(execution), "the call is recorded as far as it went")
    assert (call.state, call.error) == ("failed", "its execution ended while it was sampled")
    assert delta(call).output_ids.tolist() == sampled(LONG)[:3]
    assert wait_for(lambda: not engine.scripted.running, "the engine was told to stop")
    gate.open()


def test_a_held_call_whose_client_has_left_gives_up_its_place(
    stage: Backstage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.proxy.call.HELD_WITHOUT_CLIENT_S", 0.5)
    run = stage.run()
    stage.engine(run, "done", role=Cell.Role.SWITCHING)
    execution, base = stage.execution(run)
    with httpx.stream(
        "POST", f"{base}/v1/chat/completions", json={"model": "m", "messages": GO, "stream": True}
    ) as response:
        next(response.iter_bytes())
    [call] = wait_for(lambda: stage.calls(execution), "the call is recorded as failed")
    assert (call.state, call.output_tokens, call.error) == ("failed", 0, "the client left before the first token")
    assert stage.app.services.router.num_waiting == 0


def test_a_call_moves_to_another_engine_with_the_tokens_that_it_has(stage: Backstage) -> None:
    run = stage.run()
    ids = sampled(LONG)
    first = stage.engine(run, Turn(ids, fault=Fault.BREAK, fault_after=4))
    second = stage.engine(run, Turn(ids[4:]), weight_version=4)
    execution, base = stage.execution(run)
    reply = _post(base, stream=True).text
    assert reply.rstrip().endswith("data: [DONE]")
    [call] = stage.calls(execution)
    assert call.state == "complete"
    assert delta(call).output_ids.tolist() == ids
    assert second.requests[0]["input_ids"] == first.requests[0]["input_ids"] + ids[:4]
    assert second.requests[0]["sampling_params"]["max_new_tokens"] == 56 - 4
    assert call.versions == [[3, 0, 4], [4, 4, len(ids)]]
    assert call.sampling["num_moves"] == 1
    assert [move[:2] for move in call.sampling["moves"]] == [[0, 4]]
    start = call.input_tokens
    assert delta(call).output_logprobs.tolist() == pytest.approx([logprob_of(t, start + n) for n, t in enumerate(ids)])


@pytest.mark.parametrize("fault", [Fault.ABORT, Fault.FAIL])
def test_an_engine_that_aborts_or_fails_is_passed_over(stage: Backstage, fault: Fault) -> None:
    run = stage.run()
    stage.engine(run, Turn(sampled(LONG), fault=fault))
    stage.engine(run, LONG)
    execution, base = stage.execution(run)
    assert _text(_post(base)) == LONG
    assert [call.cell for call in stage.calls(execution)] == [1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_request_is_recorded_as_failed_and_told(stage: Backstage, stream: bool) -> None:
    run = stage.run()
    stage.engine(run, Turn([1], fault=Fault.REFUSE))
    execution, base = stage.execution(run)
    response = _post(base, stream=stream)
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    [call] = stage.calls(execution)
    assert (call.state, call.output_tokens) == ("failed", 0)


@pytest.mark.parametrize("fault", [Fault.NAN, Fault.SHORT])
@pytest.mark.parametrize("stream", [False, True])
def test_missing_log_probabilities_quarantine_the_call(stage: Backstage, fault: Fault, stream: bool) -> None:
    run = stage.run()
    stage.engine(run, Turn(sampled(LONG), fault=fault, fault_after=2))
    execution, base = stage.execution(run)
    assert _post(base, stream=stream).status_code == 200
    [call] = stage.calls(execution)
    assert call.state == "quarantined"
    assert "log-probabilit" in call.error
    assert delta(call).output_ids.tolist() == sampled(LONG)
    assert np.isnan(delta(call).output_logprobs).any()


def test_cumulative_chunks_are_read_like_incremental_ones(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, Turn(sampled(LONG), tokens_per_chunk=2))
    engine.scripted.incremental = False
    execution, base = stage.execution(run)
    _post(base, stream=True)
    [call] = stage.calls(execution)
    assert (call.state, call.error) == ("complete", "")
    assert delta(call).output_ids.tolist() == sampled(LONG)


def test_a_late_write_to_a_superseded_attempt_is_refused_and_not_recorded(stage: Backstage) -> None:
    run = stage.run()
    gate = Gate(stage, stage.engine(run, LONG), after=2)
    execution, base = stage.execution(run)
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(_post(base)))
    asking.start()
    wait_for(lambda: stage.engines[0].requests, "the call is out")
    Execution.objects.filter(pk=execution.pk).update(attempt=2, key_hash=None)
    gate.open()
    asking.join()
    assert answers[0].status_code == 409
    assert stage.calls(execution) == []


def test_a_restarted_proxy_goes_on_where_the_old_one_stopped(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "read", "write", "done")
    execution, base = stage.execution(run)
    key = base.rsplit("/", 1)[1]
    messages = list(GO)
    for _ in range(2):
        messages += [{"role": "assistant", "content": _text(_post(base, messages))}, {"role": "user", "content": "on"}]
    stage.stop_proxy()
    stage.start_proxy()
    _post(f"{stage.url}/x/{key}", messages)
    calls = stage.calls(execution)
    assert [(c.number, c.parent_number) for c in calls] == [(0, None), (1, 0), (2, 1)]
    assert calls[2].prefix_tokens == calls[1].input_tokens + calls[1].output_tokens
    assert engine.requests[2]["input_ids"] == full_input(calls[2])
    assert not any(call.false_fork for call in calls)


def test_a_marked_retry_is_answered_from_the_record_and_an_unmarked_one_is_a_sibling(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "read", "write")
    execution, base = stage.execution(run)
    first = _post(base)
    again = _post(base, headers={"x-stainless-retry-count": "1"})
    assert _text(again) == _text(first) == "read"
    assert len(stage.calls(execution)) == 1
    assert _text(_post(base)) == "write"
    one, two = stage.calls(execution)
    assert (two.parent_number, two.branch_reason, two.false_fork) == (one.number, "", False)
    assert full_input(two) == full_input(one)


def test_a_marked_retry_joins_the_call_that_is_still_in_flight(
    stage: Backstage, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[LiveCall] = []
    join = LiveCall.join
    monkeypatch.setattr(LiveCall, "join", lambda call: joined.append(call) or join(call))
    run = stage.run()
    engine = stage.engine(run, LONG)
    gate = Gate(stage, engine, after=2)
    execution, base = stage.execution(run)
    answers: list[str] = []
    headers = [{}, {"x-stainless-retry-count": "1"}]
    asking = [threading.Thread(target=lambda h=h: answers.append(_text(_post(base, headers=h)))) for h in headers]
    asking[0].start()
    wait_for(lambda: engine.requests, "the call is out")
    asking[1].start()
    wait_for(lambda: joined, "both clients read the call", until=lambda calls: len(calls) == 2)
    gate.open()
    for thread in asking:
        thread.join()
    assert answers == [LONG, LONG]
    assert len(stage.calls(execution)) == len(engine.requests) == 1


def test_a_call_waits_with_keep_alives_while_no_cell_takes_calls_and_the_time_is_not_the_agents(
    stage: Backstage,
) -> None:
    run = stage.run()
    stage.engine(run, "done", role=Cell.Role.SWITCHING)
    execution, base = stage.execution(run)
    with httpx.stream(
        "POST", f"{base}/v1/chat/completions", json={"model": "m", "messages": GO, "stream": True}, timeout=30
    ) as response:
        lines = response.iter_lines()
        while next(lines) != ": keep-alive":
            pass
        assert stage.calls(execution) == []
        Cell.objects.update(role=Cell.Role.ROLLOUT)
        assert [line for line in lines if line][-1] == "data: [DONE]"
    [call] = stage.calls(execution)
    execution.refresh_from_db()
    assert call.held_s > 1
    assert execution.held_s == pytest.approx(call.held_s, abs=0.5)


def test_calls_beyond_the_limit_of_a_cell_wait_for_room(stage: Backstage) -> None:
    run = stage.run(max_calls_per_cell=1)
    engine = stage.engine(run, LONG)
    gate = Gate(stage, engine, after=2)
    execution, base = stage.execution(run)
    asking = [threading.Thread(target=_post, args=(base,)) for _ in range(2)]
    for thread in asking:
        thread.start()
    wait_for(lambda: execution.refresh_from_db() or execution.held_s > 0, "one call is held")
    assert len(engine.requests) == 1
    gate.open()
    for thread in asking:
        thread.join()
    assert len(stage.calls(execution)) == 2


def test_an_execution_stays_with_its_cell_while_that_takes_calls(stage: Backstage) -> None:
    run = stage.run()
    engines = [stage.engine(run, "a"), stage.engine(run, "a")]
    bases = [stage.execution(run)[1] for _ in range(2)]
    for base in bases * 3:
        _post(base)
    assert sorted(len(e.requests) for e in engines) in ([0, 6], [3, 3])
    used = 0 if engines[0].requests else 1
    Cell.objects.filter(index=used).update(desired_role=Cell.Role.TRAINING)
    wait_for(lambda: len(_post(bases[0]).text) and len(engines[1 - used].requests) > 0, "calls go to the other cell")


def test_a_body_over_the_limit_gets_413_and_a_broken_one_400(stage: Backstage) -> None:
    run = stage.run()
    _, base = stage.execution(run)
    url = f"{base}/v1/chat/completions"
    assert httpx.post(url, content=b" " * (64 * 1024 * 1024 + 1), timeout=60).status_code == 413
    assert httpx.post(url, content=b'{"model": ').status_code == 400
    assert httpx.post(url, content=b"[]").status_code == 400
    assert httpx.post(f"{base}/v1/nothing", content=b"{}").status_code == 404


def test_nul_characters_in_texts_are_recorded_as_replacement_characters(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "done")
    execution, base = stage.execution(run)
    assert _post(base, [{"role": "user", "content": "a\x00b"}]).status_code == 200
    assert stage.calls(execution)[0].messages[-1]["content"] == "a\ufffdb"


def test_health_tells_how_much_is_going_on(stage: Backstage) -> None:
    health = wait_for(lambda: (r := httpx.get(f"{stage.url}/health")).status_code == 200 and r, "the proxy is healthy")
    state = health.json()
    names = ("status", "sessions", "calls", "waiting", "spooled")
    assert [state[name] for name in names] == ["ok", 0, 0, 0, 0]
    run = stage.run()
    stage.engine(run, "done")
    execution, base = stage.execution(run)
    _post(base)
    state = httpx.get(f"{stage.url}/health").json()
    [call] = stage.calls(execution)
    assert (state["sessions"], state["tokens"]) == (1, call.input_tokens + call.output_tokens)
    assert state["bytes"] > 4 * state["tokens"]
