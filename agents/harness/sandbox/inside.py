"""The way into a standing sandbox for a forked child of the sandbox server.

The child joins the sandbox's namespaces, opens the address of the model proxy on the sandbox's loopback and hands
that socket out. A process never changes its PID namespace, only that of its children. Root has the child born there;
others may do so only from within the sandbox's user namespace: their child forks once more and waits outside.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.harness.sandbox import limits, namespaces
from agents.harness.sandbox.base import PROXY_PORT

Program = Callable[[dict[str, str]], int]


@dataclass(frozen=True)
class Way:
    """How a child becomes what processes of the sandbox are: the first process there, host identity, filter, where it
    writes to be in the sandbox's control group, processors."""

    pidfd: int
    identity: int | None
    filter: bytes
    procs: Path | None
    processors: set[int]


def enter(spec: dict[str, Any], way: Way, log_fd: int, channel: socket.socket, program: Program | None) -> int:
    """Start the spec's process tree inside the sandbox. Returns the pid of a child that ends when the tree does."""
    with _children_in(way.pidfd) if way.identity is not None else contextlib.nullcontext():
        pid = os.fork()
        if pid == 0:
            _go(spec, way, log_fd, channel, program)
        return pid


@contextlib.contextmanager
def _children_in(pidfd: int) -> Iterator[None]:
    """Inside the block, children are born in the PID namespace of that process."""
    own = os.pidfd_open(os.getpid())
    try:
        namespaces.join(pidfd, namespaces.CLONE_NEWPID)
        yield
    finally:
        namespaces.join(own, namespaces.CLONE_NEWPID)
        os.close(own)


def _go(spec: dict[str, Any], way: Way, log_fd: int, channel: socket.socket, program: Program | None) -> None:
    status, is_born_there = 126, way.identity is not None
    try:
        keep_open(way.pidfd, log_fd, channel.fileno())
        if way.procs:
            way.procs.write_text("0")
        os.sched_setaffinity(0, way.processors)
        if way.identity is not None:
            become(way.identity)
        namespaces.join(way.pidfd, namespaces.ALL_NAMESPACES & ~(namespaces.CLONE_NEWPID if is_born_there else 0))
        if spec["proxy_socket"]:
            listener = socket.create_server(("127.0.0.1", PROXY_PORT), backlog=64)
            socket.send_fds(channel, [b"listening"], [listener.fileno()])
            listener.close()
        channel.close()
        child = 0 if is_born_there else os.fork()
        if child == 0:
            _run_inside(spec, way, log_fd, program)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException as error:
        os.write(log_fd, f"sandbox: {error}\n".encode())
    finally:
        # A signal's number does not fit an exit status of its own: shells write 128 + n.
        os._exit(status if status >= 0 else 128 - status)


def keep_open(*kept: int) -> None:
    """Close every other descriptor: pipes of other sandboxes must end when the server ends."""
    low = 3
    for number in sorted(kept):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def become(identity: int) -> None:
    """Turn from root into the unprivileged host identity of all sandboxes."""
    os.setgroups([])
    os.setresgid(identity, identity, identity)
    os.setresuid(identity, identity, identity)


def _run_inside(spec: dict[str, Any], way: Way, log_fd: int, program: Program | None) -> None:
    code = 126
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY)
        for target, source in enumerate((null, log_fd, log_fd)):
            os.dup2(source, target)
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        limits.apply(spec["limits"])
        namespaces.give_up_privileges()
        namespaces.filter_calls(way.filter)
        os.umask(0o022)
        os.chdir(spec["workdir"])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if program is None:
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(spec["command"][0], spec["command"], spec["env"])
        os.environ.clear()
        os.environ.update(spec["env"])
        code = program(spec["env"])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1 if program else 126
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)
