"""What recording costs: CPU of the proxy per chunk and per request, against a bare pass-through in the same run.

Both stand before the same scripted engine, in a process of its own, and are asked the same by the same client. CPU is
that of the proxy process with its threads (utime + stime), Postgres not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import orjson

from agents.config import preset
from agents.models import Execution, Group, Project, Run, Task, TaskSet
from agents.proxy.rendering import BUNDLED_POLICY, rendering
from gyreweb.bench.figures import Figure
from scheduler.models import Cell

REPO_ROOT = Path(__file__).resolve().parents[2]
NUM_TOKENS = 200
BODY_BYTES = 4096
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Per request: CPU seconds of the server, wall seconds of each request."""

    cpu_s: float
    latencies_s: list[float]


def run(num_streams: int = 256, seconds_per_reply: float = 6.0) -> Mapping[str, Figure]:
    """Figures of `manage.py bench proxy`."""
    with contextlib.ExitStack() as stack:
        sides = _sides(stack, num_streams, seconds_per_reply / NUM_TOKENS)
        streamed = [side.measure(num_streams, stream=True, tokens=NUM_TOKENS) for side in sides]
        shorter = [side.measure(num_streams, stream=True, tokens=NUM_TOKENS // 10) for side in sides]
        whole = [side.measure(num_streams, stream=False, tokens=NUM_TOKENS) for side in sides]
        calm = [side.measure(min(64, num_streams), stream=True, tokens=NUM_TOKENS, spread_s=2.0) for side in sides]
    per_chunk = [(long.cpu_s - short.cpu_s) / (0.9 * NUM_TOKENS) for long, short in zip(streamed, shorter, strict=True)]
    latencies = [statistics.median(cost.latencies_s) for cost in calm]
    return {
        "chunk_cpu": Figure.against(1e6 * per_chunk[0], 1e6 * per_chunk[1], "us"),
        "request_cpu": Figure.against(1e3 * streamed[0].cpu_s, 1e3 * streamed[1].cpu_s, "ms"),
        "whole_reply_cpu": Figure.against(1e3 * whole[0].cpu_s, 1e3 * whole[1].cpu_s, "ms"),
        "latency_p50": Figure.against(1e3 * latencies[0], 1e3 * latencies[1], "ms"),
        "added_p50": Figure(1e3 * (latencies[0] - latencies[1]), "ms"),
    }


@dataclass(frozen=True)
class Side:
    """One of the two servers that are compared."""

    name: str
    urls: list[str]
    pid: int

    def measure(self, num_streams: int, *, stream: bool, tokens: int, spread_s: float = 0.0) -> Cost:
        asyncio.run(_load(self.urls[:num_streams], self.pid, stream=stream, tokens=1))
        cost = asyncio.run(_load(self.urls[:num_streams], self.pid, stream=stream, tokens=tokens, spread_s=spread_s))
        print(f"{self.name}: {num_streams} at once, {tokens} tokens, stream {stream}", file=sys.stderr)
        return cost


def _sides(stack: contextlib.ExitStack, num_streams: int, interval_s: float) -> tuple[Side, Side]:
    """The proxy and the bare pass-through, before one engine."""
    [word] = rendering(BUNDLED_POLICY).tokenizer.encode(" the")[:1]
    pace = ("--tokens", str(NUM_TOKENS), "--token-id", str(word), "--interval", str(interval_s))
    engine_url, _ = stack.enter_context(_process("agents.proxy.scripted", *pace))
    bare_url, bare_pid = stack.enter_context(_process("agents.proxy.passthrough", engine_url))
    keys = stack.enter_context(_executions(engine_url, num_streams))
    socket_path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "proxy.sock"
    proxy_url, proxy_pid = stack.enter_context(
        _process("agents.proxy", "--port", "0", "--socket", str(socket_path), "--log-level", "warning")
    )
    recording = [f"{proxy_url}/x/{key}" for key in keys]
    return Side("proxy", recording, proxy_pid), Side("pass-through", [bare_url] * len(keys), bare_pid)


async def _load(urls: list[str], pid: int, *, stream: bool, tokens: int, spread_s: float = 0.0) -> Cost:
    """One request for every url, their starts spread over `spread_s`. Each opens a conversation of its own."""
    latencies: list[float] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def client(number: int, url: str) -> None:
            await asyncio.sleep(spread_s * number / len(urls))
            body = _request(stream, tokens)
            started = time.perf_counter()
            async with session.post(f"{url}/v1/chat/completions", data=body) as response:
                if response.status != 200:
                    raise RuntimeError(f"{url} answered {response.status}: {await response.text()}")
                async for _chunk in response.content.iter_any():
                    pass
            latencies.append(time.perf_counter() - started)

        before = _cpu_s(pid)
        await asyncio.gather(*(client(number, url) for number, url in enumerate(urls)))
        used = _cpu_s(pid) - before
    return Cost(used / len(latencies), latencies)


def _request(stream: bool, tokens: int) -> bytes:
    message = {"role": "user", "content": f"{secrets.token_hex(8)} "}
    body = {"model": "policy", "stream": stream, "max_tokens": tokens, "messages": [message]}
    words = "read the file and write the word " * (BODY_BYTES // 33 + 1)
    message["content"] += words[: BODY_BYTES - len(orjson.dumps(body))]
    return orjson.dumps(body)


@contextlib.contextmanager
def _executions(engine_url: str, count: int) -> Iterator[list[str]]:
    """Keys of executions of a run that is thrown away afterwards."""
    config = preset("quickstart", context_tokens=4096, max_new_tokens=NUM_TOKENS, max_calls_per_cell=10_000)
    project, _ = Project.objects.get_or_create(slug="bench", defaults={"name": "Benchmarks"})
    task_set, _ = TaskSet.objects.get_or_create(name="bench", digest="0", defaults={"path": "/"})
    task, _ = Task.objects.get_or_create(
        task_set=task_set, name="bench", defaults={"path": "/", "digest": "0", "config": {}}
    )
    made = Run.objects.create(
        project=project, task_set=task_set, name="bench proxy", state=Run.State.RUNNING, seed=1,
        policy_kind=config.policy_kind, config=config.model_dump(mode="json"),
    )  # fmt: skip
    Cell.objects.create(
        run=made, index=0, is_core=True, role=Cell.Role.ROLLOUT, engine_url=engine_url, weight_version=0
    )
    group = Group.objects.create(run=made, task=task, number=0)
    keys = [secrets.token_urlsafe(24) for _ in range(count)]
    Execution.objects.bulk_create(
        Execution(
            run=made, group=group, index=i, state=Execution.State.RUNNING, key_hash=hashlib.sha256(k.encode()).digest()
        )
        for i, k in enumerate(keys)
    )
    try:
        yield keys
    finally:
        made.delete()


@contextlib.contextmanager
def _process(module: str, *options: str) -> Iterator[tuple[str, int]]:
    """A child that prints its address first: (address, process id)."""
    child = subprocess.Popen([sys.executable, "-m", module, *options], cwd=REPO_ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        address = next((word for word in line.split() if word.startswith("http://")), None)
        if address is None:
            raise RuntimeError(f"{module} did not start: {line!r}")
        _await_port(address)
        yield address, child.pid
    finally:
        child.terminate()
        child.wait(30)
        if child.stdout is not None:
            child.stdout.close()


def _await_port(address: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
