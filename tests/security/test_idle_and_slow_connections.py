"""Clients that hold connections without using them: they lose them, and nobody else is shut out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from websockets.sync.client import connect

from agents.proxy.http import given_up
from agents.serving import connections
from agents.serving.connections import guarded
from tests.proxy.backstage import Backstage, Loop, backstage
from tests.proxy.gate import Gate
from tests.proxy.processes import ROOT, proxy_process
from tests.support.waiting import wait_for, wait_until_serving

FEW = ("prlimit", "--nofile=256:256")
GO = {"model": "m", "messages": [{"role": "user", "content": "go"}]}


@contextmanager
def _web(under: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """The web process: its address and pid."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*under, sys.executable, "-m", "gyreweb.serve", "--port", str(port)]
    child = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "GYRE_HTTPS": "0"})
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_serving(f"{url}/login/", child)
        yield url, child.pid
    finally:
        child.terminate()
        child.wait(30)


@pytest.fixture(params=["proxy", "web"])
def server(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[str]:
    """Address of a page of a process that may open 256 files."""
    if request.param == "proxy":
        with proxy_process(database_url, tmp_path, "proxy-slow", under=FEW) as proxy:
            yield f"{proxy.url}/health"
    else:
        with _web(FEW) as (url, _):
            yield f"{url}/login/"


def _connect(stack: ExitStack, url: str, said: bytes = b"") -> socket.socket:
    host, port = url.split("/")[2].split(":")
    client = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
    client.sendall(said)
    return client


@pytest.mark.parametrize(
    ("number", "said"),
    [
        pytest.param(300, b"", id="say-nothing"),
        pytest.param(500, b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", id="slow-headers"),
        pytest.param(300, b"POST /login/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\nx", id="slow-bodies"),
    ],
)
def test_hundreds_of_connections_that_never_finish_a_request_shut_out_nobody(
    server: str, number: int, said: bytes
) -> None:
    with ExitStack() as stack:
        for _ in range(number):
            with contextlib.suppress(OSError):  # closed for a newer one while it speaks
                _connect(stack, server, said)
        for _ in range(3):
            assert httpx.get(server, timeout=30).status_code == 200


def test_hundreds_of_idle_clients_that_were_answered_once_shut_out_nobody(server: str) -> None:
    with ExitStack() as stack:
        path = "/" + server.split("/", 3)[3]
        for _ in range(300):
            client = _connect(stack, server, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert client.recv(12) == b"HTTP/1.1 200"
        assert httpx.get(server, timeout=30).status_code == 200


def test_a_stream_that_runs_is_not_given_up_for_clients_that_wait(database_url: str, tmp_path: Path) -> None:
    with (
        backstage(database_url) as stage,
        proxy_process(database_url, tmp_path, "proxy-slow", under=FEW) as proxy,
        ExitStack() as stack,
    ):
        gate, text = _streams(stage, proxy.url)
        for _ in range(300):
            _connect(stack, proxy.url)
        gate.open()
        assert text().endswith("data: [DONE]\n\n")


def _streams(stage: Backstage, url: str) -> tuple[Gate, Callable[[], str]]:
    """A stream that its engine holds at a gate, and what came at last."""
    run = stage.run()
    engine = stage.engine(run, "done")
    gate = Gate(stage, engine)
    _, base = stage.execution(run)
    base = base.replace(stage.url, url)
    found: list[str] = []

    def ask() -> None:
        found.append(httpx.post(f"{base}/v1/chat/completions", json=GO | {"stream": True}, timeout=60).text)

    asking = threading.Thread(target=ask)
    asking.start()

    def text() -> str:
        asking.join()
        return found[0]

    wait_for(lambda: engine.scripted.running, "the stream is at the engine")
    return gate, text


def test_a_process_raises_its_limit_of_open_files_and_keeps_as_many_idle_clients(
    database_url: str, tmp_path: Path
) -> None:
    with proxy_process(database_url, tmp_path, "proxy-slow", under=("prlimit", "--nofile=256:2048")) as proxy:
        limits = Path(f"/proc/{proxy.child.pid}/limits").read_text()
        [open_files] = [line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files")]
        assert open_files == ["2048", "2048"]
        with ExitStack() as stack:
            clients = [_connect(stack, proxy.url) for _ in range(300)]
            for client in clients:
                client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert {client.recv(12) for client in clients} == {b"HTTP/1.1 200"}


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a server with short limits that answers with the length of what it was sent."""
    monkeypatch.setattr(connections, "HEADERS_WITHIN_S", 0.3)
    monkeypatch.setattr(connections, "BODY_WITHIN_S", 0.3)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            said = await receive()
            return await send({"type": "websocket.send", "text": said["text"]})
        size, more = 0, True
        while more and scope["method"] == "POST":
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, more = size + len(message["body"]), message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(size).encode()})

    loop, listener = Loop(), socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http=guarded(100, given_up), lifespan="off", log_level="warning", timeout_keep_alive=60
    )
    server = uvicorn.Server(config)
    serving = asyncio.run_coroutine_threadsafe(server.serve(sockets=[listener]), loop.loop)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    serving.result(30)
    loop.close()


def _all(client: socket.socket) -> bytes:
    """What a server says until it closes."""
    found = b""
    while piece := client.recv(65536):
        found += piece
    return found


@pytest.mark.parametrize(
    "said",
    [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"],
)
def test_whoever_does_not_finish_a_request_in_time_is_told_so_and_closed(guard: str, said: bytes) -> None:
    with ExitStack() as stack:
        assert _all(_connect(stack, guard, said)).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("path", "where", "kind", "id"),
    [
        ("/x/key/v1/messages", ("error", "type"), "timeout_error", "request-id"),
        ("/v1/responses", ("error", "code"), "request_timeout", "x-request-id"),
        ("/x/key/v1/chat/completions", ("error", "code"), "request_timeout", "x-request-id"),
        ("/anything", ("error", "code"), "request_timeout", "x-request-id"),
    ],
)
def test_a_harness_whose_body_does_not_come_is_told_in_its_dialect_with_an_id(
    guard: str, path: str, where: tuple[str, str], kind: str, id: str
) -> None:
    with ExitStack() as stack:
        said = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx".encode()
        head, _, body = _all(_connect(stack, guard, said)).partition(b"\r\n\r\n")
    outer, inner = where
    assert json.loads(body)[outer][inner] == kind
    assert f"\r\n{id}: req_" in head.decode()


def test_the_second_request_of_a_connection_has_the_same_limits(guard: str) -> None:
    with ExitStack() as stack:
        client = _connect(stack, guard, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        client.sendall(b"GET / HT")
        assert b"HTTP/1.1 408" in _all(client)


def test_headers_without_end_are_refused_by_their_size_in_the_dialect_of_their_path(guard: str) -> None:
    with ExitStack() as stack:
        head = b"POST /x/key/v1/messages?beta=true HTTP/1.1\r\nHost: x\r\n"
        head += b"".join(b"x-%d: %s\r\n" % (i, b"a" * 900) for i in range(100))
        answer, _, body = _all(_connect(stack, guard, head)).partition(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431")
    assert json.loads(body)["error"]["type"] == "request_too_large"


def test_a_body_that_keeps_coming_is_read_to_its_end_however_long_it_takes(
    guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BODY_BYTES_PER_S", 10)
    with ExitStack() as stack:
        client = _connect(stack, guard, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n")
        for _ in range(20):
            client.sendall(b"x")
            threading.Event().wait(0.05)
        assert b"20" in client.recv(4096)


def test_a_websocket_that_is_quiet_for_longer_stays_open(guard: str) -> None:
    with connect(guard.replace("http", "ws")) as client:
        threading.Event().wait(0.6)
        client.send("still here")
        assert client.recv(30) == "still here"
