"""The worker's side of the sandbox server: threads start sandboxes, wait for their end, and stop them."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import logging
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.core.outcome import Reason
from agents.harness.sandbox import cgroups, processes
from agents.harness.sandbox.base import SERVER_MARK, SUPERVISOR_MARK, Exit, ExitCause, SandboxError, SandboxSpec

log = logging.getLogger(__name__)

_MESSAGE_BYTES = 1 << 18
_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 60.0
#: A server that has said nothing for so long is asked whether it is there.
ASKED_AFTER_S = 10.0
#: One that does not answer for so long hangs: it is killed, and the next sandbox starts another.
ANSWERS_WITHIN_S = 60.0
_REPO = Path(__file__).resolve().parents[3]
#: What the server may know of its surroundings. Everything else, secrets above all, stays outside.
_PASSED_ON = (
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "GYRE_SANDBOX_UID",
    "LITELLM_LOCAL_MODEL_COST_MAP",
    SUPERVISOR_MARK,
)


@dataclass
class Sandbox:
    """A started sandbox. `pid` is its first process as the host sees it."""

    number: int
    spec: SandboxSpec
    pid: int = 0
    pid_namespace: int = 0
    cgroup: cgroups.Cgroup | None = None
    stopped_by: ExitCause | None = None
    _started: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _code: int = 0
    _error: str | None = None

    def wait_started(self, timeout_s: float) -> None:
        """Raises SandboxError when the sandbox could not be made."""
        if not self._started.wait(timeout_s):
            raise SandboxError(Reason.SANDBOX_NEVER_HEALTHY, f"the sandbox did not start within {timeout_s:g} s")
        if self._error is not None:
            raise SandboxError(Reason.SANDBOX_NEVER_HEALTHY, self._error)

    def wait(self, timeout_s: float | None) -> Exit | None:
        """How it ended, or None while it runs. Raises SandboxError when it could not be made or was lost."""
        if not self._ended.wait(timeout_s):
            return None
        if self._error is not None:
            raise SandboxError(Reason.SANDBOX_LOST if self.pid else Reason.SANDBOX_NEVER_HEALTHY, self._error)
        return Exit(self._code, self._cause())

    def _cause(self) -> ExitCause:
        """What it was stopped for, or what it exceeded shortly before it ended by itself, unseen by the watch."""
        if self.stopped_by is not None:
            return self.stopped_by
        if self._code == 128 + signal.SIGXFSZ:
            return "disk"
        with contextlib.suppress(OSError):
            if self.spec.log.lstat().st_size > self.spec.limits.output_bytes:
                return "output"
        return "exited"

    def report(self, message: dict[str, Any]) -> None:
        match message["op"]:
            case "started":
                self.pid, self.pid_namespace = message["pid"], message["pid_namespace"]
                if message["cgroup"]:
                    path, version = message["cgroup"]
                    self.cgroup = cgroups.Cgroup(Path(path), version)
            case "exited":
                self._code = message["code"]
                self.stopped_by = self.stopped_by or message["over"] or None
                self._ended.set()
            case "failed":
                self._error = message["error"]
                self._ended.set()
        self._started.set()


class SandboxServer:
    """Starts the server process when it is first needed, and again when it has died or hangs.

    `use_cgroups=False` is for tests: limits as on a machine where no control group can be made.
    """

    def __init__(self, programs: dict[str, str] | None = None, use_cgroups: bool = True) -> None:
        self._programs = programs or {}
        self._use_cgroups = use_cgroups
        self._lock = threading.Lock()
        #: Whoever sends may have to wait for the server: never under `_lock`, which its reports need.
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._sandboxes: dict[int, Sandbox] = {}
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def sandboxes(self) -> list[Sandbox]:
        with self._lock:
            return list(self._sandboxes.values())

    @property
    def process_id(self) -> int | None:
        """The server process, if one was started."""
        return self._process.pid if self._process else None

    def warm_up(self) -> None:
        """Start the server process before it is needed: it imports its programs meanwhile."""
        with self._lock:
            if self._control is None:
                self._launch()

    def start(self, spec: SandboxSpec) -> Sandbox:
        sandbox = Sandbox(next(self._numbers), spec)
        message = json.dumps({"op": "start", "id": sandbox.number, **spec.message()}).encode()
        if len(message) > _MESSAGE_BYTES:
            raise SandboxError(
                Reason.SANDBOX_NEVER_HEALTHY, "the command and environment of the sandbox exceed 256 KiB"
            )
        with self._lock:
            control = self._control or self._launch()
            self._sandboxes[sandbox.number] = sandbox
        try:
            with self._sending:
                control.send(message)
        except OSError as error:
            with self._lock:
                self._sandboxes.pop(sandbox.number, None)
            raise SandboxError(Reason.SANDBOX_NEVER_HEALTHY, f"the sandbox server is gone: {error}") from error
        return sandbox

    def stop(self, sandbox: Sandbox, cause: ExitCause = "killed") -> None:
        """Kill everything in the sandbox; its `wait` returns when that is done."""
        with self._lock:
            if sandbox.number not in self._sandboxes or self._control is None:
                return
            sandbox.stopped_by, control = sandbox.stopped_by or cause, self._control
        with self._sending, contextlib.suppress(OSError):  # a server that is gone takes its sandboxes along
            control.send(json.dumps({"op": "stop", "id": sandbox.number}).encode())

    def end(self, sandbox: Sandbox, cause: ExitCause = "killed") -> Exit:
        """Stop it and wait until everything in it is dead. Raises SandboxError when it was lost."""
        self.stop(sandbox, cause)
        end = sandbox.wait(_END_TIMEOUT_S)
        if end is None:
            raise SandboxError(Reason.SANDBOX_LOST, f"the sandbox did not end within {_END_TIMEOUT_S:g} s")
        return end

    def run(self, spec: SandboxSpec, timeout_s: float) -> Exit | None:
        """Run one to its end; None when its time was up, and then everything of it is dead."""
        sandbox = self.start(spec)
        sandbox.wait_started(_START_TIMEOUT_S)
        end = sandbox.wait(max(0.0, timeout_s))
        if end is None:
            self.end(sandbox)
        return end

    def close(self) -> None:
        """End the server and every sandbox."""
        with self._lock:
            process, control = self._process, self._control
            self._process = self._control = None
        if control:
            control.shutdown(socket.SHUT_RDWR)
        if process:
            process.wait()

    def _launch(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "agents.harness.sandbox.server", "--control-fd", str(theirs.fileno())]
        for name, target in self._programs.items():
            command += ["--program", f"{name}={target}"]
        if not self._use_cgroups:
            command.append("--no-cgroups")
        mark = secrets.token_hex(16)
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment |= {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(_REPO), SERVER_MARK: mark}
        self._process = subprocess.Popen(
            command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._control = ours
        threading.Thread(
            target=self._listen, args=(ours, self._process, mark), name="sandbox-reports", daemon=True
        ).start()
        atexit.register(self.close)
        return ours

    @staticmethod
    def _next_message(control: socket.socket, process: subprocess.Popen[bytes]) -> bytes:
        """Empty when the server is gone. One that is there and does not answer is killed."""
        asked_at: float | None = None
        poll = select.poll()  # a busy worker has more descriptors than select.select takes
        poll.register(control, select.POLLIN)
        while True:
            timeout_s = ASKED_AFTER_S if asked_at is None else 1.0
            if poll.poll(1000 * timeout_s):
                with contextlib.suppress(OSError):
                    return control.recv(_MESSAGE_BYTES)
                return b""
            if asked_at is None:
                asked_at = time.monotonic()
                with contextlib.suppress(OSError):  # no room: it has enough to answer already
                    control.send(b'{"op": "ask", "id": 0}', socket.MSG_DONTWAIT)
            elif time.monotonic() - asked_at > ANSWERS_WITHIN_S:
                log.error("the sandbox server %s does not answer: it is killed", process.pid)
                process.kill()
                asked_at = time.monotonic()

    def _listen(self, control: socket.socket, process: subprocess.Popen[bytes], mark: str) -> None:
        while raw := self._next_message(control, process):
            message = json.loads(raw)
            if message["op"] == "here":
                continue
            with self._lock:
                sandbox = self._sandboxes[message["id"]]
                if message["op"] != "started":
                    del self._sandboxes[message["id"]]
            sandbox.report(message)
        with self._lock:
            if self._control is control:
                self._control = None
            lost, self._sandboxes = self._sandboxes, {}
        control.close()
        process.wait()
        processes.kill_marked(SERVER_MARK, mark)
        cgroups.remove_of(process.pid)
        for sandbox in lost.values():
            sandbox.report({"op": "failed", "error": "the sandbox server died"})
