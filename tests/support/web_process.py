"""Test support: a real web process over the test database."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gyreweb.env import REPO_ROOT
from tests.support.waiting import wait_until_serving


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
        wait_until_serving(f"{address}/login/", server)
        yield WebProcess(address, server.pid)
    finally:
        server.terminate()
        server.wait(20)
