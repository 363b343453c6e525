"""The cell host: imports torch, SGLang, Megatron and Mooncake once and forks cell agents and engines from itself.

`python -m trainers.launch.host` listens on $GYRE_HOME/run/cellhost.sock (wire.py). It decides nothing: the
control plane says which cells to launch, an agent says which engine it needs. When an agent ends, its engine is
ended; when the host ends, all of them are (also after kill -9, by parent-death signals).
"""

import contextlib
import json
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainers.launch import processes, segments, wire

log = logging.getLogger("gyre.cellhost")

STOP_GRACE_S = 5.0


@dataclass
class Agent:
    run_id: int
    cell_index: int
    epoch: int
    pid: int
    engines: list[int] = field(default_factory=list)


class Host:
    """Owns the children. `fork_agent` and `fork_engine` are given, so that tests run it with small bodies."""

    def __init__(
        self,
        home: Path,
        run_agent: Callable[[int, int, int], int],
        run_engine: Callable[[list[str]], int],
    ) -> None:
        self.home = home
        self.run_agent = run_agent
        self.run_engine = run_engine
        self.agents: dict[int, Agent] = {}
        self.stopping = False
        self._pid = os.getpid()
        self._listener: socket.socket | None = None

    # requests

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request.get("op"):
            case "launch":
                return self._launch(int(request["run_id"]), int(request["cell_index"]), int(request["epoch"]))
            case "engine":
                return self._engine(int(request["owner_pid"]), [str(part) for part in request["arguments"]])
            case "stop":
                return self._stop_run(int(request["run_id"]))
            case "list":
                return {"cells": [self._describe(agent) for agent in self.agents.values()]}
            case unknown:
                return {"error": f"unknown operation {unknown!r}"}

    def _describe(self, agent: Agent) -> dict[str, Any]:
        return {"run_id": agent.run_id, "cell_index": agent.cell_index, "epoch": agent.epoch, "pid": agent.pid}

    def _launch(self, run_id: int, cell_index: int, epoch: int) -> dict[str, Any]:
        for agent in list(self.agents.values()):
            if (agent.run_id, agent.cell_index) != (run_id, cell_index):
                continue
            if agent.epoch >= epoch:
                return {"error": f"cell {cell_index} of run {run_id} already runs in epoch {agent.epoch}"}
            self._end(agent, grace_s=0.0)
        title, logs = f"gyre cell {run_id}/{cell_index}", self.home / "logs"
        pid = self._fork(
            title, logs / f"cell-{run_id}-{cell_index}.log", lambda: self.run_agent(run_id, cell_index, epoch)
        )
        self.agents[pid] = Agent(run_id, cell_index, epoch, pid)
        log.info("cell %s of run %s: agent %s in epoch %s", cell_index, run_id, pid, epoch)
        return {"pid": pid}

    def _engine(self, owner_pid: int, arguments: list[str]) -> dict[str, Any]:
        agent = self.agents.get(owner_pid)
        if agent is None:
            return {"error": f"process {owner_pid} is no agent of this host"}
        title = f"gyre engine {agent.run_id}/{agent.cell_index}"
        path = self.home / "logs" / f"engine-{agent.run_id}-{agent.cell_index}.log"
        pid = self._fork(title, path, lambda: self.run_engine(arguments))
        agent.engines.append(pid)
        return {"pid": pid}

    def _stop_run(self, run_id: int) -> dict[str, Any]:
        stopped = [agent for agent in self.agents.values() if agent.run_id == run_id]
        self._end_agents(stopped)
        return {"stopped": len(stopped)}

    # children

    def _fork(self, title: str, log_path: Path, body: Callable[[], int]) -> int:
        def child() -> int:
            if self._listener is not None:
                self._listener.close()
            return body()

        return processes.fork_child(title, log_path, child)

    def _end(self, agent: Agent, grace_s: float) -> None:
        del self.agents[agent.pid]
        processes.end_group(agent.pid, grace_s)
        for engine in agent.engines:
            processes.end_group(engine)

    def reap(self) -> None:
        """Collect children that ended; an agent takes its engine with it."""
        for agent in list(self.agents.values()):
            for engine in [pid for pid in agent.engines if processes.has_ended(pid)]:
                log.warning("engine %s of cell %s ended", engine, agent.cell_index)
                agent.engines.remove(engine)
                processes.end_group(engine)
            if processes.has_ended(agent.pid):
                log.info("agent %s of run %s cell %s ended", agent.pid, agent.run_id, agent.cell_index)
                self._end(agent, grace_s=0.0)

    def end_all(self) -> None:
        self._end_agents(list(self.agents.values()))

    def _end_agents(self, agents: list[Agent]) -> None:
        for agent in agents:
            processes.ask_to_end(agent.pid)
        for agent in agents:
            self._end(agent, grace_s=STOP_GRACE_S)

    # loop

    def serve(self) -> None:
        """Listen until SIGTERM or SIGINT, then end every child."""
        path = wire.socket_path(self.home)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        listener = self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with wire.short_name(path) as name:
            listener.bind(name)
        path.chmod(0o600)
        listener.listen(64)
        listener.setblocking(False)
        woken_r, woken_w = socket.socketpair()
        for end in (woken_r, woken_w):
            end.setblocking(False)
        signal.set_wakeup_fd(woken_w.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ)
        selector.register(woken_r, selectors.EVENT_READ)
        log.info("listening on %s", path)
        try:
            while not self.stopping:
                for key, _ in selector.select(timeout=5.0):
                    if key.fileobj is listener:
                        self._accept(listener)
                    else:
                        with contextlib.suppress(BlockingIOError):
                            woken_r.recv(4096)
                self.reap()
        finally:
            if os.getpid() == self._pid:
                self.end_all()
                path.unlink(missing_ok=True)

    def _on_stop(self, *_: object) -> None:
        self.stopping = True

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return
        with connection:
            connection.settimeout(2.0)
            try:
                reply = self.answer(json.loads(wire.read_line(connection)))
            except Exception as error:
                log.exception("bad request")
                reply = {"error": f"{type(error).__name__}: {error}"}
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(reply).encode() + b"\n")


def main() -> int:
    """Warm up, then serve."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if not os.environ.get("GYRE_HOME"):
        print("GYRE_HOME is not set", file=sys.stderr)
        return 2
    if left_behind := segments.clear():
        log.info("removed %s segments of shared memory that killed engines had left", len(left_behind))
    started = time.monotonic()
    from trainers.cell import warm

    warm.prepare()
    log.info("imports took %.1f s", time.monotonic() - started)
    Host(Path(os.environ["GYRE_HOME"]), warm.run_agent, warm.run_engine).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
