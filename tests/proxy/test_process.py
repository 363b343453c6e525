"""The proxy as a process: `python -m agents.proxy`."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from agents.proxy.store import APPLICATION_NAME
from tests.proxy.backstage import Backstage
from tests.support.waiting import wait_until_serving

pytestmark = pytest.mark.platform

ROOT = Path(__file__).resolve().parents[2]


def _command(*options: str) -> list[str]:
    return [sys.executable, "-m", "agents.proxy", *options]


@pytest.fixture
def process(database_url: str, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A running proxy: its address and its unix socket."""
    unix = tmp_path / "run" / "proxy.sock"
    child = subprocess.Popen(
        _command("--port", "0", "--socket", str(unix)),
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    address = next(word for word in child.stdout.readline().split() if word.startswith("http://"))
    transport = httpx.HTTPTransport(uds=str(unix))
    try:
        with httpx.Client(transport=transport) as client:
            wait_until_serving("http://proxy/health", child, client.get)
        yield address, unix
    finally:
        child.terminate()
        child.stdout.close()
        assert child.wait(30) == -signal.SIGTERM


def test_one_process_serves_a_port_and_a_unix_socket(stage: Backstage, process: tuple[str, Path]) -> None:
    address, unix = process
    run = stage.run()
    stage.engine(run, "done")
    execution, base = stage.execution(run)
    path = f"/x/{base.rsplit('/', 1)[1]}/v1/chat/completions"
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(unix))) as client:
        assert client.post(f"http://proxy{path}", json=body).status_code == 200
    assert httpx.post(f"{address}{path}", json=body).status_code == 200
    assert len(stage.calls(execution)) == 2


def test_help_says_what_can_be_set() -> None:
    said = subprocess.run(_command("--help"), cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(option in said for option in ("--port", "--socket", "--database-url"))


def test_a_taken_port_is_a_clear_error(database_url: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = subprocess.run(
            _command("--port", port, "--socket", str(tmp_path / "s")), cwd=ROOT, capture_output=True, text=True
        )
    assert ended.returncode == 1
    assert f"127.0.0.1:{port} cannot be taken" in ended.stderr
    assert "GYRE_PROXY_PORT" in ended.stderr


def test_a_call_survives_the_loss_of_every_database_connection(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "done")
    execution, base = stage.execution(run)
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}]}

    async def cut() -> None:
        async with await psycopg.AsyncConnection.connect(stage.database_url, autocommit=True) as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND "
                "application_name = %s",
                [APPLICATION_NAME],
            )

    assert httpx.post(f"{base}/v1/chat/completions", json=body).status_code == 200
    seen = []

    async def cut_once() -> None:
        if not seen:
            seen.append(True)
            await cut()

    stage.engines[0].scripted.gate = cut_once
    assert httpx.post(f"{base}/v1/chat/completions", json=body, timeout=60).status_code == 200
    assert seen
    assert len(stage.calls(execution)) == 2
