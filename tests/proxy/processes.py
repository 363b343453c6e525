"""Recording proxies as processes of their own: started, killed and started again as a supervisor would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.waiting import wait_until_serving

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class ProxyProcess:
    """`url` is its address over TCP, `socket` its unix socket."""

    child: subprocess.Popen[str]
    url: str
    socket: Path

    def kill(self) -> None:
        """kill -9: nothing is tidied up."""
        self.child.kill()
        self.child.wait(30)

    def health(self) -> dict:
        return httpx.get(f"{self.url}/health").json()


@contextmanager
def proxy_process(
    database_url: str, home: Path, name: str, port: int = 0, under: tuple[str, ...] = (), **variables: str
) -> Iterator[ProxyProcess]:
    """A proxy that is healthy; ends with the block. `under`: a command that starts it, like prlimit."""
    path = home / f"{name}.sock"
    child = subprocess.Popen(
        [*under, sys.executable, "-m", "agents.proxy", "--name", name, "--port", str(port), "--socket", str(path)],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url, **variables},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        url = next(word for word in child.stdout.readline().split() if word.startswith("http://"))
        wait_until_serving(f"{url}/health", child)
        yield ProxyProcess(child, url, path)
    finally:
        if child.poll() is None:
            child.terminate()
        child.stdout.close()
        child.wait(30)
