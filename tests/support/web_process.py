"""Test support: a real web process over the test database."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gyreweb.env import REPO_ROOT

START_S = 60


@dataclass(frozen=True)
class WebProcess:
    address: str
    pid: int


@contextmanager
def web_process() -> Iterator[WebProcess]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gyreweb.serve", "--port", str(port)]
    server = subprocess.Popen(command, cwd=REPO_ROOT, env=os.environ | {"GYRE_HTTPS": "0"})
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, server)
        yield WebProcess(address, server.pid)
    finally:
        server.terminate()
        server.wait(20)


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(START_S * 5):
        try:
            urllib.request.urlopen(f"{address}/login/", timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            assert server.poll() is None, "the web process ended at once"
            time.sleep(0.2)
    raise AssertionError(f"the web process did not answer within {START_S} s")
