"""One sandbox as the sandbox server keeps it: bubblewrap, the child that entered it, its forwarder, its end."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.harness.sandbox import bubblewrap, inside, limits
from agents.harness.sandbox.base import SandboxError
from agents.harness.sandbox.forwarder import Forwarder
from agents.harness.sandbox.seats import Seat, Seats
from agents.harness.sandbox.stage import Direct, Staged

KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True)
class Context:
    """What all sandboxes of a server share."""

    selector: selectors.BaseSelector
    stage: Direct | Staged
    seats: Seats
    report: Callable[[dict[str, object]], None]


class Box:
    """States: bubblewrap starts → it names the first process, which is put under its limits → it says ready →
    (a child enters) → something ends → all is killed → reported.

    A spec without a proxy and without a program is its bubblewrap's own command; otherwise bubblewrap only holds the
    namespaces open and a forked child enters them.
    """

    def __init__(self, number: int, spec: dict[str, Any], context: Context) -> None:
        self._number, self._spec, self._context = number, spec, context
        self._entered = bool(spec["proxy_socket"] or spec["program"])
        self._stopping = False
        self._code: int | None = None
        self._error = ""
        self._seat: Seat | None = None
        self._log: int | None = None
        self._info = b""
        self._said = b""
        self._ready = False
        self._init_pid = 0
        self._init_pidfd: int | None = None
        self._children: dict[int, int] = {}  # pidfd → pid
        self._outer_pidfd: int | None = None
        self._init_alive = False
        self._open: dict[int, Callable[[bytes], None]] = {}  # pipes watched by the selector
        self._channel: socket.socket | None = None
        self._forwarder: Forwarder | None = None

    def start(self) -> None:
        try:
            self._spawn()
        except (OSError, SandboxError) as error:
            self._error = str(error)
            self._finish_if_over()

    def stop(self) -> None:
        """Kill everything inside. The report follows when the kernel has ended the last process."""
        self._stopping = True
        self._kill()

    def retry(self) -> float | None:
        return self._forwarder.retry() if self._forwarder else None

    # --- bubblewrap

    def _spawn(self) -> None:
        spec, stage = self._spec, self._context.stage
        area = stage.show(spec["area"])

        def shown(source: str) -> str:
            return os.path.join(area, os.path.relpath(source, spec["area"]))

        binds = [
            (shown(source) if writable else stage.show(source), dest, writable)
            for source, dest, writable in spec["binds"]
        ]
        seats = self._context.seats
        command = bubblewrap.arguments(spec, shown(spec["root"]), binds, memory_is_counted=seats.groups is not None)
        command += bubblewrap.HOLD if self._entered else [*bubblewrap.ANNOUNCE, *spec["command"]]
        self._log = self._open_log()
        seat = self._seat = seats.take(spec["limits"], None if self._entered else self._log)
        self._watch_pipe(seat.info, self._on_info)
        self._watch_pipe(seat.ready, self._on_ready)
        self._outer_pidfd = self._watch_child(seat.pid)
        with limits.as_user(seats.identity):
            os.sched_setaffinity(seat.pid, self._processors())
        seat.become(command, self._entered)

    def _processors(self) -> set[int]:
        """As many as the task asks for; sandboxes next to each other get different ones."""
        available = os.sched_getaffinity(0)
        wanted = self._spec["limits"]["cpus"]
        if not wanted or wanted >= len(available):
            return available
        ordered = sorted(available)
        return {ordered[(self._number + index) % len(ordered)] for index in range(wanted)}

    def _open_log(self) -> int:
        return os.open(self._spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)

    def _watch_pipe(self, number: int, handler: Callable[[bytes], None]) -> None:
        def on_readable(_who: int, _mask: int) -> None:
            data = os.read(number, 4096)
            if data:
                handler(data)
            else:
                self._close_pipe(number)

        os.set_blocking(number, False)
        self._open[number] = handler
        self._context.selector.register(number, selectors.EVENT_READ, on_readable)

    def _close_pipe(self, number: int) -> None:
        self._context.selector.unregister(number)
        del self._open[number]
        os.close(number)

    def _read_rest(self) -> None:
        """What was written before the end, and not yet noticed."""
        for number, handler in list(self._open.items()):
            with contextlib.suppress(BlockingIOError):
                handler(os.read(number, 4096))
            if number in self._open:
                self._close_pipe(number)

    def _watch_child(self, pid: int) -> int:
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = pid
        self._context.selector.register(pidfd, selectors.EVENT_READ, self._on_child_end)
        return pidfd

    def _on_info(self, data: bytes) -> None:
        self._info += data
        if self._init_pidfd is None and b"}" in self._info:
            with contextlib.suppress(ProcessLookupError):
                self._init_pid = json.loads(self._info)["child-pid"]
                self._init_pidfd = os.pidfd_open(self._init_pid)
                self._init_alive = True
                self._context.selector.register(self._init_pidfd, selectors.EVENT_READ, self._on_init_end)
                self._let_go()
            if self._stopping:
                self._kill()
            self._proceed()

    def _let_go(self) -> None:
        """Put the first process of the sandbox, which waits, under its limits, and let it go on."""
        assert self._seat is not None
        try:
            with limits.as_real_user(self._context.seats.identity):
                limits.apply(self._spec["limits"], self._init_pid)
            os.write(self._seat.go, b"\n")
        except ProcessLookupError:
            raise
        except OSError as error:
            self._error = f"the limits of the sandbox could not be set: {error}"
            self._stopping = True

    def _on_ready(self, data: bytes) -> None:
        self._said = (self._said + data)[:4096]
        if not self._ready and self._said.startswith(b"ready\n"):
            self._ready = True
            self._proceed()

    # --- the process tree

    def _proceed(self) -> None:
        if not self._ready or self._init_pidfd is None or self._stopping:
            return
        info = json.loads(self._info)
        cgroup = self._seat.cgroup if self._seat else None
        self._context.report(
            {
                "op": "started", "id": self._number, "pid": info["child-pid"], "pid_namespace": info["pid-namespace"],
                "cgroup": [str(cgroup.path), cgroup.version] if cgroup else None,
            }
        )  # fmt: skip
        if self._entered:
            try:
                self._send_inside()
            except OSError as error:
                self._error = str(error)
                self._kill()

    def _send_inside(self) -> None:
        assert self._seat is not None
        assert self._init_pidfd is not None
        assert self._log is not None
        seats, cgroup, program = self._context.seats, self._seat.cgroup, self._spec["program"]
        procs = cgroup.procs if cgroup else None
        way = inside.Way(self._init_pidfd, seats.identity, seats.filter, procs, self._processors())
        self._channel, theirs = socket.socketpair()
        self._context.selector.register(self._channel, selectors.EVENT_READ, self._on_listener)
        with theirs:
            called = seats.programs[program] if program else None
            self._watch_child(inside.enter(self._spec, way, self._log, theirs, called))

    def _on_listener(self, channel: socket.socket, _mask: int) -> None:
        _, descriptors, _, _ = socket.recv_fds(channel, 64, 1)
        self._context.selector.unregister(channel)
        channel.close()
        self._channel = None
        if descriptors:
            listener = socket.socket(fileno=descriptors[0])
            self._forwarder = Forwarder(listener, self._spec["proxy_socket"], self._context.selector)

    # --- the end

    def _on_child_end(self, pidfd: int, _mask: int) -> None:
        self._context.selector.unregister(pidfd)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(self._children.pop(pidfd), 0)[1])
        code = code if code >= 0 else 128 - code
        if pidfd == self._outer_pidfd:
            self._outer_pidfd = None
            if not self._entered:
                self._code = code
        else:
            self._code = code
        self._kill()
        self._finish_if_over()

    def _on_init_end(self, pidfd: int, _mask: int) -> None:
        self._context.selector.unregister(pidfd)
        self._init_alive = False
        with contextlib.suppress(ChildProcessError):  # bubblewrap has waited for it, unless it ended before
            os.waitpid(self._init_pid, os.WNOHANG)
        self._finish_if_over()

    def _kill(self) -> None:
        """The death of the first process of a PID namespace is the death of all, and it ends last.

        Bubblewrap itself is not killed before it has named that process, which would wait for it for ever.
        """
        for pidfd in (self._init_pidfd, self._outer_pidfd if b"}" in self._info else None):
            if pidfd is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                return

    def _finish_if_over(self) -> None:
        if not self._children:
            self._read_rest()
        if self._children or self._init_alive:
            return
        if self._channel:
            self._context.selector.unregister(self._channel)
            self._channel.close()
        for kept in (self._log, self._init_pidfd):
            if kept is not None:
                os.close(kept)
        if self._seat:
            self._seat.discard()
        if self._forwarder:
            self._forwarder.close()
        cgroup = self._seat.cgroup if self._seat else None
        num_memory_kills = cgroup.num_memory_kills() if cgroup else 0
        if cgroup:
            cgroup.remove()
        if self._ready and not self._error:
            code = KILLED if self._code is None else self._code
            over = "memory" if num_memory_kills else ""
            self._context.report({"op": "exited", "id": self._number, "code": code, "over": over})
        else:
            error = self._error or self._said.decode(errors="replace").strip() or self._end_of_log()
            self._context.report({"op": "failed", "id": self._number, "error": error})

    def _end_of_log(self) -> str:
        with contextlib.suppress(OSError), open(self._spec["log"], errors="replace") as log:
            return log.read()[-500:].strip() or "bubblewrap ended without a message"
        return "bubblewrap ended without a message"
