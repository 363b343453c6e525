"""The engine of one cell as a process: asked of the cell host, watched by its agent."""

import logging
import os
import random
import secrets
import socket
from dataclasses import replace
from pathlib import Path

from trainers.cell import device
from trainers.cell.engine.arguments import LOOPBACK, EngineSpec, GpuPlan, cpu_arguments, gpu_arguments
from trainers.cell.engine.client import EngineClient, EngineEnded
from trainers.launch import processes, wire

log = logging.getLogger("gyre.engine")

READY_TIMEOUT_S = 600.0
#: The host may be busy with forks of other cells, or stand still for a while.
HOST_ANSWERS_WITHIN_S = 60.0
#: A port that was free when it was chosen may be taken when the engine binds it.
START_ATTEMPTS = 3
PORTS = range(20_000, 32_000)


def free_port(host: str = LOOPBACK) -> int:
    """A port below those that the kernel hands out by itself, so that it is still free when the engine binds it."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port on {host} in {PORTS.start} to {PORTS.stop - 1}")


class EngineProcess:
    """Started in `__init__`, ready after `wait_ready`. Ended by the host when this agent ends."""

    def __init__(
        self, home: Path, model_folder: Path, seed: int, context_tokens: int, max_calls: int, kv_tokens: int
    ) -> None:
        self.key = secrets.token_hex(32)  # never begins with "-", which the command line would take for an option
        self._home = home
        self._spec = EngineSpec(
            model_path=str(model_folder),
            port=0,
            key=self.key,
            seed=seed,
            context_tokens=context_tokens,
            max_calls=max_calls,
            kv_tokens=kv_tokens,
        )
        self._start()

    def _start(self) -> None:
        spec = replace(self._spec, port=free_port())
        arguments = cpu_arguments(spec) if device.ON_CPU else gpu_arguments(spec, GpuPlan())
        request = {"op": "engine", "owner_pid": os.getpid(), "arguments": arguments}
        answer = wire.ask(self._home, request, HOST_ANSWERS_WITHIN_S)
        self.pid = int(answer["pid"])
        self.url = f"http://{spec.host}:{spec.port}"
        self.client = EngineClient(self.url, self.key)

    def alive(self) -> bool:
        return processes.alive(self.pid)

    def wait_ready(self) -> None:
        """Wait until it serves; one that ends before that is started again. Raises EngineError."""
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                return self.client.wait_ready(READY_TIMEOUT_S, self.alive)
            except EngineEnded:
                log.warning("the engine ended before it was ready (attempt %s of %s)", attempt, START_ATTEMPTS)
                if attempt == START_ATTEMPTS:
                    raise
                self._start()
