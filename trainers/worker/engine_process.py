"""The engine of one cell as a process: asked of the cell host, watched by its agent."""

import os
import secrets
import socket
from pathlib import Path

from trainers.cells import processes, wire
from trainers.worker import device
from trainers.worker.engine import EngineClient
from trainers.worker.engine_args import LOOPBACK, EngineSpec, GpuPlan, cpu_arguments, gpu_arguments

READY_TIMEOUT_S = 300.0


def free_port(host: str = LOOPBACK) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


class EngineProcess:
    """Started in `__init__`, ready after `wait_ready`. Ended by the host when this agent ends."""

    def __init__(
        self, home: Path, model_folder: Path, seed: int, context_tokens: int, max_calls: int, kv_tokens: int
    ) -> None:
        self.key = secrets.token_urlsafe(32)
        spec = EngineSpec(
            model_path=str(model_folder),
            port=free_port(),
            key=self.key,
            seed=seed,
            context_tokens=context_tokens,
            max_calls=max_calls,
            kv_tokens=kv_tokens,
        )
        arguments = cpu_arguments(spec) if device.ON_CPU else gpu_arguments(spec, GpuPlan())
        answer = wire.ask(home, {"op": "engine", "owner_pid": os.getpid(), "arguments": arguments})
        self.pid = int(answer["pid"])
        self.url = f"http://{spec.host}:{spec.port}"
        self.client = EngineClient(self.url, self.key)

    def alive(self) -> bool:
        return processes.alive(self.pid)

    def wait_ready(self) -> None:
        """Raises EngineError."""
        self.client.wait_ready(READY_TIMEOUT_S, self.alive)
