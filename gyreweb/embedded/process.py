"""Start, find and stop a server process. A pid is trusted only when its command line names our own directory."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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


def without_folder(marker: str) -> list[int]:
    """Processes that were started with `marker` among their arguments, and whose working folder is deleted."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.readlink(place / "cwd").endswith(" (deleted)") and runs(int(place.name), marker):
                found.append(int(place.name))
    return found


@dataclass(frozen=True)
class Server:
    """A server process that was just started."""

    name: str
    pid: int
    log: Path
    log_start: int

    def wait_ready(self, ready: Callable[[], bool]) -> None:
        """Return when `ready()`. Raises EmbeddedError when the process ends first or START_TIMEOUT_S pass."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready():
            if os.waitpid(self.pid, os.WNOHANG) != (0, 0):
                raise died(self.name, self.log, self.log_start)
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise EmbeddedError(f"{self.name} did not answer within {START_TIMEOUT_S:.0f} s; its log is {self.log}")
            time.sleep(POLL_S)


def start(name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Server:
    """Start a server in its own session, so that Ctrl-C in a terminal does not reach it; output goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_name(log.name + ".1"))
    with log.open("ab") as output:
        log_start = output.tell()
    # Not subprocess.Popen: the server outlives whoever started it.
    pid = os.posix_spawnp(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_APPEND, 0),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return Server(name, pid, log, log_start)


def answers(name: str, pid: Callable[[], int | None], ready: Callable[[], bool], log: Path) -> bool:
    """Whether the server runs and is ready; waits for one that is just starting or ending."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (running := pid()) is not None:
        # Its files may be half-written while it starts.
        with suppress(OSError, IndexError, StopIteration):
            if ready():
                return True
        if time.monotonic() > deadline:
            raise EmbeddedError(f"{name} (pid {running}) runs but does not answer; its log is {log}")
        time.sleep(POLL_S)
    return False


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
