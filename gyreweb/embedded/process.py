"""Start, find and stop a server process. A pid is trusted only when its command line names our own directory."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gyreweb.embedded.errors import EmbeddedError, died

MAX_LOG_BYTES = 16 * 1024**2
START_TIMEOUT_S = 60.0
POLL_S = 0.03


def find(pid_file: Path, marker: str) -> int | None:
    """The pid in `pid_file` if that process is alive and has `marker` among its arguments."""
    try:
        first = pid_file.read_text().split("\n", 1)[0].strip()
    except OSError:
        return None
    return int(first) if first.isdigit() and runs(int(first), marker) else None


def runs(pid: int, marker: str) -> bool:
    """Whether `pid` is alive (a zombie is not) and was started with `marker` as one of its arguments."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return marker.encode() in arguments


def start(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a server in its own session, so that Ctrl-C in a terminal does not reach it; output goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_name(log.name + ".1"))
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
        )


def wait_ready(name: str, child: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool]) -> None:
    """Return when `ready()`. Raises EmbeddedError when the child ends first or START_TIMEOUT_S pass."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready():
        if child.poll() is not None:
            raise died(name, log)
        if time.monotonic() > deadline:
            child.kill()
            child.wait()
            raise EmbeddedError(f"{name} did not answer within {START_TIMEOUT_S:.0f} s; its log is {log}")
        time.sleep(POLL_S)


def stop(pid: int, marker: str, polite: signal.Signals, timeout_s: float = 30.0) -> None:
    """Send `polite`, and KILL after `timeout_s`. Does nothing when the process is not ours any more."""
    for sent in (polite, signal.SIGKILL):
        if not runs(pid, marker):
            return
        with suppress(ProcessLookupError):
            os.kill(pid, sent)
        deadline = time.monotonic() + timeout_s
        while runs(pid, marker) and time.monotonic() < deadline:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(POLL_S)
