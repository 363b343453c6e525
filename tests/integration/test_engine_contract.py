"""The scripted engine keeps SGLang's contract: the same cases on it and on a real server (docs/cells.md)."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from agents.proxy.scripted import ScriptedEngine, serve
from tests.integration.cells import LiveCells

PROMPT = list(range(40, 72))


@dataclass(frozen=True)
class Engine:
    url: str
    key: str

    def post(self, path: str, body: Any) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, headers=self.headers, timeout=60)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=self.headers, timeout=60)

    def generate(self, **body: Any) -> httpx.Response:
        params = {"max_new_tokens": 8, "temperature": 1.0, "ignore_eos": True} | body.pop("sampling_params", {})
        return self.post("/generate", {"input_ids": PROMPT, "return_logprob": True, "sampling_params": params} | body)

    @contextlib.contextmanager
    def streaming(self, **body: Any) -> Iterator[Iterator[dict[str, Any]]]:
        params = {"max_new_tokens": 8, "temperature": 1.0, "ignore_eos": True} | body.pop("sampling_params", {})
        request = {"input_ids": PROMPT, "return_logprob": True, "stream": True, "sampling_params": params} | body
        with httpx.stream("POST", f"{self.url}/generate", json=request, headers=self.headers, timeout=60) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            lines = (line.removeprefix("data: ") for line in response.iter_lines() if line)
            yield (json.loads(line) for line in lines if line != "[DONE]")

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


@pytest.fixture
def scripted() -> Iterator[Engine]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ids = [200 + n % 64 for n in range(4096)]
    serving = serve(ScriptedEngine(lambda _: ids, context_tokens=4096, token_interval_s=0.005))
    url = asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(30)
    try:
        yield Engine(url, "")
    finally:
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def real(live_cells: LiveCells) -> Engine:
    run = live_cells.start(1, context_tokens=4096, tokens_per_micro_step=4096)
    cell = live_cells.cell(run, 0)
    return Engine(cell.engine_url, cell.engine_key)


def test_the_scripted_engine_keeps_the_contract(scripted: Engine, subtests: Any) -> None:
    _hold_to_contract(scripted, subtests)


def test_the_real_server_keeps_the_contract(real: Engine, subtests: Any) -> None:
    _hold_to_contract(real, subtests)


def _hold_to_contract(engine: Engine, subtests: Any) -> None:
    """All cases in one test, so that one server serves them."""
    for case in (
        _a_whole_reply_has_ids_logprobs_and_version_spans,
        _a_stream_adds_up_to_as_many_tokens_as_it_counts,
        _a_stop_token_ends_the_reply_and_stays_in_it,
        _a_prompt_seen_before_under_the_same_key_is_cached_up_to_its_last_token,
        _an_aborted_request_ends_with_what_it_has,
        _a_paused_engine_holds_new_requests_until_it_goes_on,
        _requests_that_make_no_sense_get_400,
        _weights_change_only_between_begin_and_end,
        _the_version_can_be_set_and_is_told,
        _load_and_information_are_told,
    ):
        with subtests.test(case.__name__):
            case(engine)


def _a_whole_reply_has_ids_logprobs_and_version_spans(engine: Engine) -> None:
    reply = engine.generate(rid="whole").json()
    meta = reply["meta_info"]
    assert len(reply["output_ids"]) == meta["completion_tokens"] == 8
    assert meta["prompt_tokens"] == len(PROMPT)
    assert [entry[1] for entry in meta["output_token_logprobs"]] == reply["output_ids"]
    assert all(entry[0] <= 0 for entry in meta["output_token_logprobs"])
    assert meta["finish_reason"] == {"type": "length", "length": 8}
    [span] = meta["weight_versions"]
    assert (span["version"], span["start"], span["end"]) == (meta["weight_version"], 0, 8)


def _a_stream_adds_up_to_as_many_tokens_as_it_counts(engine: Engine) -> None:
    with engine.streaming() as chunks:
        seen = list(chunks)
    assert sum(len(chunk["output_ids"]) for chunk in seen) == seen[-1]["meta_info"]["completion_tokens"] == 8
    for chunk in seen:
        assert [entry[1] for entry in chunk["meta_info"]["output_token_logprobs"]] == chunk["output_ids"]
    assert [chunk["meta_info"]["finish_reason"] for chunk in seen[:-1]] == [None] * (len(seen) - 1)


def _a_stop_token_ends_the_reply_and_stays_in_it(engine: Engine) -> None:
    token = engine.generate(sampling_params={"temperature": 0.0}).json()["output_ids"][0]
    reply = engine.generate(sampling_params={"temperature": 0.0, "stop_token_ids": [token], "ignore_eos": False}).json()
    assert reply["output_ids"] == [token]
    assert reply["meta_info"]["finish_reason"] == {"type": "stop", "matched": token}


def _a_prompt_seen_before_under_the_same_key_is_cached_up_to_its_last_token(engine: Engine) -> None:
    def cached(key: str) -> int:
        return engine.generate(extra_key=key).json()["meta_info"]["cached_tokens"]

    assert [cached("1:0:a"), cached("1:0:a"), cached("1:1:a")] == [0, len(PROMPT) - 1, 0]


def _an_aborted_request_ends_with_what_it_has(engine: Engine) -> None:
    with engine.streaming(rid="to-abort", sampling_params={"max_new_tokens": 1500}) as chunks:
        first = next(chunks)
        assert engine.post("/abort_request", {"rid": "to-abort"}).status_code == 200
        last = [first, *chunks][-1]
    assert last["meta_info"]["finish_reason"]["type"] == "abort"
    assert 0 < last["meta_info"]["completion_tokens"] < 1500


def _a_paused_engine_holds_new_requests_until_it_goes_on(engine: Engine) -> None:
    assert engine.post("/pause_generation", {"mode": "retract"}).status_code == 200
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(engine.generate()))
    asking.start()
    asking.join(timeout=0.5)
    assert asking.is_alive()
    assert engine.post("/continue_generation", {}).status_code == 200
    asking.join()
    assert answers[0].json()["meta_info"]["completion_tokens"] == 8


def _requests_that_make_no_sense_get_400(engine: Engine) -> None:
    assert engine.post("/generate", {"sampling_params": {}}).status_code == 400
    too_many = {"max_new_tokens": 100_000}
    assert engine.generate(sampling_params=too_many).status_code == 400
    with engine.streaming(sampling_params=too_many) as chunks:
        [chunk] = chunks
    assert chunk["error"]["type"] == "invalid_request_error"


def _weights_change_only_between_begin_and_end(engine: Engine) -> None:
    body: dict[str, Any] = {"serialized_named_tensors": [""]}
    assert engine.post("/update_weights_from_tensor", body).status_code == 400
    assert engine.post("/begin_weight_update", {"selector": "all"}).status_code == 200
    assert engine.post("/begin_weight_update", {"selector": "all"}).status_code == 400
    assert engine.post("/end_weight_update", {}).status_code == 200


def _the_version_can_be_set_and_is_told(engine: Engine) -> None:
    change = {"new_version": "7", "abort_all_requests": False}
    assert engine.post("/update_weight_version", change).json()["success"]
    assert engine.get("/model_info").json()["weight_version"] == "7"
    assert engine.generate().json()["meta_info"]["weight_versions"] == [{"version": "7", "start": 0, "end": 8}]


def _load_and_information_are_told(engine: Engine) -> None:
    [load] = engine.get("/v1/loads").json()["loads"]
    assert load["num_running_reqs"] == load["num_waiting_reqs"] == 0
    assert engine.post("/flush_cache", {}).status_code == 200
