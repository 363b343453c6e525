"""An engine that dies, falls silent, vanishes or talks nonsense: the call goes on elsewhere, unseen by the harness.

What cannot be trusted is kept and never trained.
"""

import json
import math
import threading
from typing import Any

import httpx
import pytest

from agents.models import RunEvent
from agents.proxy.engine import ChunkReader, EngineFailed, Sampled, _loads
from agents.proxy.scripted import Fault, Turn, logprob_of
from scheduler.models import Cell
from tests.proxy.backstage import Backstage, delta, policy, sampled
from tests.proxy.gate import Gate
from tests.support.waiting import wait_for

GO = [{"role": "user", "content": "go"}]
LONG = "read the file and write the word"


def _stream(base: str, **options: Any) -> httpx.Response:
    body = {"model": "m", "messages": GO, "stream": True} | options
    return httpx.post(f"{base}/v1/chat/completions", json=body, timeout=60)


def _text(response: httpx.Response) -> str:
    """What a stream says; it must have ended well."""
    assert response.text.rstrip().endswith("data: [DONE]"), response.text
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)


@pytest.mark.parametrize("after", [0, 4])
def test_a_silent_engine_is_left_told_to_abort_and_the_call_goes_on_with_its_tokens(
    stage: Backstage, after: int
) -> None:
    stage.stop_proxy()
    stage.start_proxy(first_token_s=2, idle_s=2)
    run = stage.run()
    ids = sampled(LONG)
    first = stage.engine(run, Turn(ids, fault=Fault.HANG, fault_after=after))
    second = stage.engine(run, Turn(ids[after:]), weight_version=4)
    execution, base = stage.execution(run)
    assert _text(_stream(base)) == LONG
    [call] = stage.calls(execution)
    assert (call.state, call.cell, delta(call).output_ids.tolist()) == ("complete", 1, ids)
    assert second.requests[0]["input_ids"] == first.requests[0]["input_ids"] + ids[:after]
    assert second.requests[0]["sampling_params"]["max_new_tokens"] == 56 - after
    assert call.versions == ([[3, 0, after]] if after else []) + [[4, after, len(ids)]]
    [[cell, kept, why]] = call.sampling["moves"]
    assert (cell, kept) == (0, after)
    assert "no token for too long" in why
    assert wait_for(lambda: not first.scripted.running, "the silent engine has aborted the request")


def test_a_call_leaves_an_engine_whose_cell_is_lost_at_once(stage: Backstage) -> None:
    run = stage.run()
    ids = sampled(LONG)
    first = stage.engine(run, Turn(ids, fault=Fault.HANG, fault_after=3))
    execution, base = stage.execution(run)
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(_text(_stream(base))))
    asking.start()
    wait_for(lambda: [r for r in first.scripted.running.values() if len(r.ids) == 3], "the engine hangs")
    stage.engine(run, Turn(ids[3:]))
    Cell.objects.filter(index=0).update(role=Cell.Role.LOST)
    asking.join()
    assert answers == [LONG]
    [call] = stage.calls(execution)
    assert delta(call).output_ids.tolist() == ids
    assert "is gone" in call.sampling["moves"][0][2]


def test_a_call_that_moves_twice_keeps_every_token_and_every_version(stage: Backstage) -> None:
    run = stage.run()
    ids = sampled(LONG)
    stage.engine(run, Turn(ids, fault=Fault.BREAK, fault_after=2), weight_version=1)
    stage.engine(run, Turn(ids[2:], fault=Fault.ABORT, fault_after=3), weight_version=2)
    stage.engine(run, Turn(ids[5:]), weight_version=3)
    execution, base = stage.execution(run)
    assert _text(_stream(base)) == LONG
    [call] = stage.calls(execution)
    assert call.versions == [[1, 0, 2], [2, 2, 5], [3, 5, len(ids)]]
    [event] = RunEvent.objects.filter(run=run)
    assert (event.seq, event.kind) == (1, "call_moved")
    assert [move[:2] for move in event.payload["moves"]] == [[0, 2], [1, 5]]
    run.refresh_from_db()
    assert run.event_seq == 1
    start = call.input_tokens
    assert delta(call).output_logprobs.tolist() == pytest.approx([logprob_of(t, start + n) for n, t in enumerate(ids)])


def test_a_reply_that_ended_before_its_engine_said_so_is_not_sampled_on(stage: Backstage) -> None:
    run = stage.run()
    ids = sampled("done")
    stage.engine(run, Turn([*ids, ids[0]], fault=Fault.BREAK, fault_after=len(ids)))
    second = stage.engine(run, "never")
    second.scripted.gate = None
    execution, base = stage.execution(run)
    stage.engines[0].scripted.gate = None
    text = _text(_stream(base))
    [call] = stage.calls(execution)
    assert (text, delta(call).output_ids.tolist(), call.finish_reason) == ("done", ids, "stop")


def test_a_stop_string_that_straddles_a_move_still_ends_the_reply(stage: Backstage) -> None:
    run = stage.run()
    ids = policy().tokenizer.encode("one STOP two three four five six seven")
    cut = next(n for n in range(1, len(ids)) if "ST" in policy().tokenizer.decode(ids[:n]))
    stage.engine(run, Turn(ids, fault=Fault.BREAK, fault_after=cut))
    stage.engine(run, Turn(ids[cut:]))
    execution, base = stage.execution(run)
    assert _text(_stream(base, stop=["STOP"])).strip() == "one"
    [call] = stage.calls(execution)
    kept = delta(call).output_ids.tolist()
    assert (call.finish_reason, kept) == ("stop_sequence", ids[: len(kept)])
    assert len(kept) < len(ids)


@pytest.mark.parametrize(("fault", "reason"), [(Fault.NAN, "log-probability None"), (Fault.SHORT, "log-probabilities")])
def test_a_call_without_sound_log_probabilities_is_answered_kept_and_quarantined_with_the_reason(
    stage: Backstage, fault: Fault, reason: str
) -> None:
    run = stage.run()
    ids = sampled(LONG)
    stage.engine(run, Turn(ids, fault=fault, fault_after=2))
    execution, base = stage.execution(run)
    assert _text(_stream(base)) == LONG
    [call] = stage.calls(execution)
    assert call.state == "quarantined"
    assert reason in call.error
    [event] = RunEvent.objects.filter(run=run)
    about = {"execution": execution.pk, "attempt": 1, "call": 0}
    assert (event.kind, event.payload) == ("call_quarantined", about | {"reason": call.error})
    assert delta(call).output_ids.tolist() == ids
    assert [math.isnan(v) for v in delta(call).output_logprobs].count(True) >= 1


def _read(chunk: dict[str, Any]) -> Sampled:
    found = Sampled()
    ChunkReader(found).take(chunk)
    return found


def _chunk(ids: list[Any], logprobs: Any, **meta: Any) -> dict[str, Any]:
    return {"output_ids": ids, "meta_info": {"completion_tokens": len(ids), "output_token_logprobs": logprobs} | meta}


@pytest.mark.parametrize(
    ("logprobs", "why"),
    [
        ([[math.nan, 5, None]], "nan"),
        ([[-math.inf, 5, None]], "-inf"),
        ([[0.5, 5, None]], "0.5"),
        ([[-0.5, 6, None]], "token 6"),
        ([None], "None"),
        ([["-0.5", 5, None]], "-0.5"),
        ([], "0 log-probabilities for 1 ids"),
        (None, "0 log-probabilities for 1 ids"),
    ],
)
def test_every_unsound_log_probability_is_a_fault_with_a_reason(logprobs: Any, why: str) -> None:
    found = _read(_chunk([5], logprobs))
    assert why in found.fault
    assert (found.ids, len(found.logprobs), math.isnan(found.logprobs[0])) == ([5], 1, True)


def test_a_chunk_whose_count_does_not_fit_its_ids_is_a_fault() -> None:
    assert "where the engine counts 3" in _read(_chunk([5], [[-1.0, 5, None]], completion_tokens=3)).fault


def test_nan_as_a_word_is_understood_and_is_a_fault() -> None:
    text = b'{"output_ids": [5], "meta_info": {"completion_tokens": 1, "output_token_logprobs": [[NaN, 5, null]]}}'
    assert "nan" in _read(_loads(text)).fault


@pytest.mark.parametrize("chunk", [{}, {"meta_info": 3}, _chunk([-1], []), _chunk([1 << 31], []), _chunk(["a"], [])])
def test_a_chunk_that_makes_no_sense_sends_the_call_to_another_engine(chunk: dict[str, Any]) -> None:
    with pytest.raises(EngineFailed, match="not understood"):
        _read(chunk)


def test_keep_alives_go_out_while_a_finished_call_waits_and_the_gaps_are_bounded(
    stage: Backstage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.proxy.answer.KEEP_ALIVE_S", 0.05)
    run = stage.run()
    engine = stage.engine(run, LONG)
    gate = Gate(stage, engine)
    _, base = stage.execution(run)
    body = {"model": "m", "messages": GO, "stream": True}
    with httpx.stream("POST", f"{base}/v1/chat/completions", json=body, timeout=60) as response:
        lines = response.iter_lines()
        seen = 0
        while seen < 3:
            seen += next(lines) == ": keep-alive"
        gate.open()
        assert [line for line in lines if line][-1] == "data: [DONE]"
