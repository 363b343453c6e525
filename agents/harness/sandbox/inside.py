"""The way into a standing sandbox for a forked child of the sandbox server.

The child joins the sandbox's namespaces, opens the address of the model proxy on the sandbox's loopback and hands
that socket out, and forks once more: the grandchild is a process of the sandbox, the child waits for it outside.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.harness.sandbox import limits, namespaces
from agents.harness.sandbox.base import PROXY_PORT

Program = Callable[[dict[str, str]], int]


@dataclass(frozen=True)
class Way:
    """How a child becomes what processes of the sandbox are: the first process there, host identity, filter."""

    pidfd: int
    identity: int | None
    filter: bytes


def enter(spec: dict[str, Any], way: Way, log_fd: int, channel: socket.socket, program: Program | None) -> int:
    """Run the spec's process tree inside the sandbox; gives its exit status. Only after a fork."""
    keep_open(way.pidfd, log_fd, channel.fileno())
    if way.identity is not None:
        become(way.identity)
    namespaces.join(way.pidfd)
    if spec["proxy_socket"]:
        listener = socket.create_server(("127.0.0.1", PROXY_PORT), backlog=64)
        socket.send_fds(channel, [b"listening"], [listener.fileno()])
        listener.close()
    channel.close()
    child = os.fork()
    if child == 0:
        _run_inside(spec, way, log_fd, program)
    os.close(log_fd)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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
