"""Child processes: started in sessions of their own, restarted with backoff when they crash, stopped TERM then KILL."""

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gyreweb.env import REPO_ROOT
from gyreweb.supervisor.services import Service

MAX_LOG_BYTES = 32 * 1024**2
BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
#: A child that lived this long has recovered: its next crash counts as the first.
STEADY_S = 60.0
TERM_TIMEOUT_S = 12.0
LOG_TAIL_LINES = 8


class Child:
    """One service's process over all its restarts. `notice` gets sentences for the terminal."""

    def __init__(
        self, service: Service, log: Path, environment: Mapping[str, str], notice: Callable[[str], None]
    ) -> None:
        self.service = service
        self.log = log
        self.num_crashes = 0
        self.ready = False
        self._environment = {**environment, **service.variables}
        self._notice = notice
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._started_at = 0.0
        self._retry_at = 0.0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Raises OSError when the log or the process cannot be made."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            self.log.replace(self.log.with_name(self.log.name + ".1"))
        with self.log.open("ab") as output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                [*_dies_with_parent(), *self.service.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=REPO_ROOT,
                env=self._environment,
                start_new_session=True,
            )
        self.ready = False
        self._started_at = time.monotonic()

    def watch(self) -> None:
        """Called often: notices a crash, restarts after the backoff, and updates `ready`."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._retry_at:
                self._start_again(now)
        elif (code := self._process.poll()) is not None:
            if now - self._started_at > STEADY_S:
                self.num_crashes = 0
            delay = self._delay()
            self.ready = False
            self._process = None
            self._retry_at = now + delay
            self._notice(f"{self.service.name} {_ended(code)}; it starts again in {delay:g} s.\n{self.log_tail()}")
        elif not self.ready:
            self.ready = self.service.ready(self._logged())

    def _start_again(self, now: float) -> None:
        """A child that cannot be started now (disk or memory full) is tried again; the others go on."""
        try:
            self.start()
        except OSError as error:
            self._retry_at = now + self._delay()
            self._notice(f"{self.service.name} cannot be started: {error}")

    def _delay(self) -> float:
        """Until the next start; longer with every crash."""
        self.num_crashes += 1
        return BACKOFF_S[min(self.num_crashes - 1, len(BACKOFF_S) - 1)]

    def request_stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        if self._process:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()

    def log_tail(self) -> str:
        lines = self._logged().decode(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join([f"  its log, {self.log}:", *(f"  | {line}" for line in lines)])

    def _logged(self) -> bytes:
        """Empty when the log file was removed; the child goes on without it."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._log_start)
                return file.read(MAX_LOG_BYTES)
        except OSError:
            return b""


def stop_all(children: Sequence[Child], hurry: Callable[[], bool]) -> None:
    """TERM to every child; KILL after TERM_TIMEOUT_S or as soon as `hurry()`."""
    for child in children:
        child.request_stop()
    deadline = time.monotonic() + TERM_TIMEOUT_S
    while any(child.pid for child in children) and time.monotonic() < deadline and not hurry():
        time.sleep(0.05)
    for child in children:
        child.kill()


def _dies_with_parent() -> list[str]:
    """Prefix that has the kernel kill a child when the supervisor is killed; util-linux has it everywhere we run."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def _ended(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
