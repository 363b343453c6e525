"""A fault of the proxy itself loses no sampled id, cuts no stream, and is answered in the dialect's shape."""

from collections.abc import Iterator

import httpx
import pytest

from agents.core.fold import EncodedCall, fold
from agents.models import Call, RequestBody, RunEvent
from agents.proxy.archive import compressed
from agents.proxy.dialects import anthropic_messages, openai_chat, responses_stream
from agents.proxy.finished import FinishedCall
from agents.proxy.history import CallHistory
from agents.proxy.parsing import ReplyParser
from tests.proxy.backstage import Backstage, backstage, delta, sampled
from tests.proxy.dialects.speakers import SPEAKERS, Speaker

PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}], "input": "go"}


@pytest.fixture
def stage(database_url: str) -> Iterator[Backstage]:
    with backstage(database_url) as found:
        yield found


@pytest.fixture(params=[speaker for speaker in SPEAKERS if not speaker.is_async], ids=repr)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    return request.param


def _breaks(*_: object, **__: object) -> None:
    raise KeyError("something nobody thought of")


@pytest.mark.parametrize("path", [*PATHS, "/v1/messages/count_tokens", "/v1/responses/input_tokens"])
def test_a_request_that_breaks_the_proxy_is_answered_with_an_id_under_which_it_is_on_record(
    stage: Backstage, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    run = stage.run()
    engine = stage.engine(run, "done")
    execution, base = stage.execution(run)
    with monkeypatch.context() as patch:
        patch.setattr(CallHistory, "prepare", _breaks)
        answer = httpx.post(base + path, json=BODY)
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "internal error of the recording proxy"
    assert answer.headers["x-should-retry"] == "false"
    (call,) = stage.calls(execution)
    assert call.uid == answer.headers["request-id" if "messages" in path else "x-request-id"]
    assert (call.state, call.role, call.output_tokens) == ("failed", "auxiliary", 0)
    assert "KeyError: 'something nobody thought of'" in call.error
    # Nothing goes on from it, neither now nor for a proxy that starts anew.
    stage.stop_proxy()
    stage.start_proxy()
    base = stage.url + "/x/" + base.rpartition("/")[2]
    assert httpx.post(f"{base}/v1/messages", json=BODY).status_code == 200
    after = stage.calls(execution)[-1]
    assert (after.number, after.parent_number, after.role) == (1, None, "main")
    assert len(engine.requests) == 1


def test_a_session_that_cannot_be_built_is_told_in_the_dialects_shape(
    stage: Backstage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stage.run(policy_path="/nowhere")
    _, base = stage.execution(run)
    for path in PATHS:
        answer = httpx.post(base + path, json=BODY)
        assert (answer.status_code, answer.json()["error"]["message"]) == (500, "internal error of the recording proxy")
        assert answer.headers.get("request-id") or answer.headers.get("x-request-id")


@pytest.mark.parametrize("broken", [(ReplyParser, "finish"), (FinishedCall, "encoded_row")], ids=["reading", "writing"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_ids_that_were_sampled_before_the_fault_are_quarantined(
    stage: Backstage, monkeypatch: pytest.MonkeyPatch, broken: tuple, stream: bool
) -> None:
    run = stage.run()
    stage.engine(run, "read the file")
    execution, base = stage.execution(run)
    monkeypatch.setattr(*broken, _breaks)
    answer = httpx.post(f"{base}/v1/messages", json=BODY | {"stream": stream})
    assert "internal error of the recording proxy" in answer.text
    (call,) = stage.calls(execution)
    assert delta(call).output_ids.tolist() == sampled("read the file")
    assert (call.state, call.reply["content"]) == ("quarantined", "read the file<|im_end|>")
    assert "KeyError" in call.error
    event = RunEvent.objects.get(run=run, kind="call_quarantined")
    assert "KeyError" in event.payload["reason"]
    row = EncodedCall(0, None, 0, bytes(call.tokens), call.versions, call.role, True, True)
    assert fold([row]).facts[0].quarantined


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_reply_that_cannot_be_written_for_its_client_ends_in_an_error_and_stays_on_record(
    stage: Backstage, monkeypatch: pytest.MonkeyPatch, speaker: Speaker, stream: bool
) -> None:
    run = stage.run()
    stage.engine(run, "read the file")
    execution, base = stage.execution(run)
    for module in (anthropic_messages, openai_chat):
        monkeypatch.setattr(module, "_usage", _breaks)
    monkeypatch.setattr(responses_stream.ResponsesStream, "response", _breaks)
    path = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions"}.get(speaker.name, "/v1/responses")
    wishes = {"stream": stream, "stream_options": {"include_usage": True}} if "chat" in path else {"stream": stream}
    answer = httpx.post(base + path, json=BODY | wishes)
    assert "internal error of the recording proxy" in answer.text
    assert answer.status_code == (200 if stream else 500)
    assert answer.headers["request-id" if "messages" in path else "x-request-id"].endswith(
        Call.objects.get(execution=execution).uid
    )
    (call,) = stage.calls(execution)
    assert (call.state, delta(call).output_ids.tolist()) == ("complete", sampled("read the file"))


def test_the_body_of_a_broken_request_is_kept(stage: Backstage, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stage.run()
    _, base = stage.execution(run)
    monkeypatch.setattr(CallHistory, "prepare", _breaks)
    raw = b'{"model":"m","input":"go"}'
    httpx.post(f"{base}/v1/responses", content=raw)
    assert bytes(RequestBody.objects.get(run=run).body) == compressed(raw)
