"""Errors reach the official clients in their own shapes, whole and in the middle of a stream."""

import asyncio
import contextlib
import gzip
import socket
from collections.abc import Iterator

import anthropic
import httpx
import openai
import orjson
import psycopg
import pytest
import uvicorn
import zstandard

from agents.proxy import dialects
from agents.proxy.dialects.base import ERRORS
from agents.proxy.http import Refusal, refuse
from agents.proxy.scripted import Fault, Turn
from tests.proxy.backstage import Backstage, sampled
from tests.proxy.dialects.speakers import SPEAKERS, Chat, Messages, Responses, Speaker

#: Kind of error -> (exception of each client, type or code in its body), for anthropic and openai.
SHAPES = {
    "bad_request": (("BadRequestError", "invalid_request_error"), ("BadRequestError", "invalid_request_error")),
    "too_long": (("BadRequestError", "invalid_request_error"), ("BadRequestError", "context_length_exceeded")),
    "not_found": (("NotFoundError", "not_found_error"), ("NotFoundError", "not_found")),
    "thread_not_found": (
        ("ThreadNotFoundError", "not_found_error"),
        ("BadRequestError", "previous_response_not_found"),
    ),
    "dead_key": (("ConflictError", "invalid_request_error"), ("ConflictError", "execution_ended")),
    "too_large": (("ContentTooLargeError", "request_too_large"), ("APIStatusError", "request_too_large")),
    "late": (("RequestTimeoutError", "timeout_error"), ("APIStatusError", "request_timeout")),
    "headers_too_large": (
        ("RequestHeaderFieldsTooLargeError", "request_too_large"),
        ("APIStatusError", "headers_too_large"),
    ),
    "engine": (("InternalServerError", "api_error"), ("InternalServerError", "server_error")),
    "broken": (("InternalServerError", "api_error"), ("InternalServerError", "server_error")),
    "unavailable": (("OverloadedError", "overloaded_error"), ("InternalServerError", "overloaded")),
}


@pytest.fixture(params=[speaker for speaker in SPEAKERS if not speaker.is_async], ids=repr)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    return request.param


@contextlib.contextmanager
def _refusing(stage: Backstage, kind: str) -> Iterator[str]:
    """A server that refuses everything as the proxy does."""

    async def app(scope: dict, receive, send) -> None:
        await refuse(send, dialects.of_path(scope["path"]), Refusal(kind, "in these words"))

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning", ws="none"))
    task = asyncio.run_coroutine_threadsafe(server.serve(sockets=[listener]), stage.loop.loop)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        task.result(30)


@pytest.mark.parametrize("kind", ERRORS)
def test_each_kind_of_error_is_the_exception_that_a_client_has_for_it(stage: Backstage, kind: str) -> None:
    of_anthropic, of_openai = SHAPES[kind]
    with _refusing(stage, kind) as base:
        for speaker in SPEAKERS:
            refused = speaker.refusal(base, [speaker.user("go")])
            expected = of_anthropic if speaker.name == "anthropic" else of_openai
            assert (refused.exception, refused.kind) == expected
            assert refused.message == "in these words"
            assert refused.is_final == (kind not in ("engine", "unavailable"))


def test_what_the_engine_refuses_is_a_server_error(stage: Backstage, speaker: Speaker) -> None:
    run = stage.run()
    stage.engine(run, Turn([], fault=Fault.REFUSE))
    execution, base = stage.execution(run)
    refused = speaker.refusal(base, [speaker.user("go")])
    assert (refused.exception, refused.status) == ("InternalServerError", 500)
    assert [call.state for call in stage.calls(execution)] == ["failed"]


@pytest.mark.parametrize("kind", [Messages, Chat, Responses])
def test_a_stream_that_cannot_be_recorded_fails_as_its_client_expects(stage: Backstage, kind: type[Speaker]) -> None:
    speaker = kind(is_async=False)
    run = stage.run()
    engine = stage.engine(run, "read the file and write the word")
    execution, base = stage.execution(run)

    num_tokens = 0

    def supersede() -> None:
        with psycopg.connect(stage.database_url, autocommit=True) as connection:
            connection.execute("UPDATE agents_execution SET attempt = 2 WHERE id = %s", [execution.pk])

    async def gate() -> None:
        nonlocal num_tokens
        num_tokens += 1
        if num_tokens == 4:
            await asyncio.to_thread(supersede)

    engine.scripted.gate = gate
    history = [speaker.user("go")]
    if kind is Responses:
        with openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
            events = list(client.responses.create(model="m", input="go", stream=True))
        assert events[-1].type == "response.failed"
        assert "started again" in events[-1].response.error.message
    else:
        expected = anthropic.APIStatusError if kind is Messages else openai.APIError
        with pytest.raises(expected, match="started again"):
            speaker.stream(base, history)
    assert stage.calls(execution) == []


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)])
def test_a_compressed_request_is_read(stage: Backstage, encoding: str, pack) -> None:
    run = stage.run()
    engine = stage.engine(run, "done")
    _, base = stage.execution(run)
    body = pack(orjson.dumps({"model": "m", "input": "go"}))
    url, headers = f"{base}/v1/responses", {"content-encoding": encoding, "content-type": "application/json"}
    assert httpx.post(url, content=body, headers=headers).json()["usage"]["output_tokens"] == len(sampled("done"))
    assert httpx.post(url, content=b"no such thing", headers=headers).status_code == 400
    unknown = httpx.post(url, content=body, headers=headers | {"content-encoding": "br"})
    assert "content-encoding br is not understood" in unknown.json()["error"]["message"]
    assert len(engine.requests) == 1


def test_paths_that_are_not_served_say_so_in_the_callers_dialect(stage: Backstage) -> None:
    _, base = stage.execution(stage.run())
    of_anthropic = httpx.post(f"{base}/v1/messages/batches", json={}).json()
    of_openai = httpx.post(f"{base}/v1/embeddings", json={}).json()
    of_responses = httpx.get(f"{base}/v1/responses/resp_1").json()
    assert of_anthropic["error"]["type"] == "not_found_error"
    assert of_openai["error"]["code"] == of_responses["error"]["code"] == "not_found"
    assert httpx.head(f"{base}/api/hello").status_code == 200
