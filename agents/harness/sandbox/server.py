"""The sandbox server: one single-threaded process per worker that makes sandboxes and starts process trees in them.

It obeys one socket, whose end is its end and that of every sandbox. It is started with an environment without secrets,
imports the programs it is to call (`program` of a spec) before the first request, and forks for each execution: an
execution pays no import, and is still a process of its own in namespaces of its own.

Requests: {"op": "start", "id": n, …SandboxSpec.message()} and {"op": "stop", "id": n}.
Reports: {"op": "started", "id", "pid", "pid_namespace", "cgroup"}, {"op": "exited", "id", "code", "over"},
{"op": "failed", "id", "error"}.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import traceback
from collections.abc import Callable
from typing import Any

from agents.harness.sandbox import namespaces, processes
from agents.harness.sandbox.base import SERVER_MARK, SandboxError
from agents.harness.sandbox.box import Box, Context
from agents.harness.sandbox.cgroups import Groups, open_groups
from agents.harness.sandbox.identity import sandbox_uid
from agents.harness.sandbox.inside import Program
from agents.harness.sandbox.seats import Seats
from agents.harness.sandbox.stage import Direct, Staged

_MESSAGE_BYTES = 1 << 18


class Server:
    def __init__(self, control: socket.socket, programs: dict[str, Program], groups: Groups | None) -> None:
        self._control = control
        identity = sandbox_uid()
        selector = selectors.DefaultSelector()
        stage = Direct() if identity is None else Staged()
        self._context = Context(selector, stage, Seats(groups, identity, programs), self._report)
        self._boxes: dict[int, Box] = {}
        selector.register(control, selectors.EVENT_READ, self._request)
        self._running = True

    def serve(self) -> None:
        selector = self._context.selector
        pause: float | None = 0
        while self._running:
            events = selector.select(pause)
            for key, mask in events:
                if _still_watched(selector, key):
                    _guarded(key.data, key.fileobj, mask)
            pauses = [wait for box in self._boxes.values() if (wait := box.retry()) is not None]
            if events or self._prepare():
                pauses.append(0)
            pause = min(pauses, default=None)
        for box in self._boxes.values():
            box.stop()
        # Bubblewraps that have not named their first process yet, and first processes that they left behind.
        processes.kill_marked(SERVER_MARK, os.environ[SERVER_MARK], spared=[os.getpid()])
        if self._context.seats.groups:
            self._context.seats.groups.remove()

    def _request(self, _who: socket.socket, _mask: int) -> None:
        raw = self._control.recv(_MESSAGE_BYTES)
        if not raw:
            self._running = False
            return
        message = json.loads(raw)
        number = message["id"]
        if message["op"] == "ask":
            self._control.send(b'{"op": "here", "id": 0}')
        elif message["op"] == "start":
            box = Box(number, message, self._context)
            self._boxes[number] = box
            box.start()
        elif number in self._boxes:
            self._boxes[number].stop()

    def _prepare(self) -> bool:
        """While nothing else is to be done: make ready for the next sandboxes. Whether more of it is wanted."""
        with contextlib.suppress(OSError, SandboxError):  # the next start will say why
            return self._context.seats.fill()
        return False

    def _report(self, message: dict[str, Any]) -> None:
        if message["op"] != "started":
            del self._boxes[message["id"]]
        try:
            self._control.send(json.dumps(message).encode())
        except OSError:
            self._running = False


def _still_watched(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> bool:
    """An event may be stale: an earlier one of the same round can have closed its descriptor."""
    try:
        return bool(selector.get_key(key.fileobj).data == key.data)
    except (KeyError, ValueError):
        return False


def _guarded(handler: Callable[..., None], *arguments: object) -> None:
    """A fault in one sandbox's affairs must not end all others; whoever waits for that one has a time limit."""
    try:
        handler(*arguments)
    except Exception:
        traceback.print_exc()


def load(names: list[str]) -> dict[str, Program]:
    """Import programs given as `name=module:function`."""
    programs: dict[str, Program] = {}
    for item in names:
        name, _, target = item.partition("=")
        module, _, function = target.partition(":")
        programs[name] = getattr(importlib.import_module(module), function)
    return programs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--program", action="append", default=[], metavar="NAME=MODULE:FUNCTION")
    parser.add_argument("--no-cgroups", action="store_true", help="as on a machine where none can be made")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    namespaces.adopt_orphans()
    if os.geteuid() == 0:
        os.setgroups([])
    os.set_inheritable(args.control_fd, False)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    groups = None if args.no_cgroups else open_groups()
    server = Server(socket.socket(fileno=args.control_fd), load(args.program), groups)
    gc.collect()
    gc.freeze()
    server.serve()


if __name__ == "__main__":
    main()
