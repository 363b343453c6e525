"""What recording costs: CPU of the proxy per chunk and per request, against a bare pass-through in the same run.

Both stand before the same scripted engine, in a process of its own, and are asked the same by the same client, in turn;
the median of the ratios of several rounds counts. CPU is that of the proxy process with its threads (utime + stime),
Postgres not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import orjson

from agents.proxy.rendering import BUNDLED_POLICY, rendering
from gyreweb.bench import scratch, stage
from gyreweb.bench.figures import Figure

NUM_TOKENS = 200
BODY_BYTES = 4096
#: Replies of the two lengths whose difference is the cost of a chunk.
SHORT_TOKENS = NUM_TOKENS // 10


@dataclass(frozen=True)
class Cost:
    """Per request: CPU seconds of the server, wall seconds of each request."""

    cpu_s: float
    latencies_s: list[float]


def run(num_streams: int = 256, seconds_per_reply: float = 5.0, rounds: int = 3) -> Mapping[str, Figure]:
    """Figures of `manage.py bench proxy`."""
    streamed, shorter, whole, calm = ([] for _ in range(4))
    with contextlib.ExitStack() as stack:
        stack.enter_context(scratch.database())
        sides = _sides(stack, num_streams, seconds_per_reply / NUM_TOKENS)
        for round_ in range(rounds):
            print(f"round {round_ + 1} of {rounds}: {num_streams} streams at once", file=sys.stderr)
            streamed.append([side.measure(num_streams, stream=True, tokens=NUM_TOKENS) for side in sides])
            shorter.append([side.measure(num_streams, stream=True, tokens=SHORT_TOKENS) for side in sides])
            whole.append([side.measure(num_streams, stream=False, tokens=NUM_TOKENS) for side in sides])
            calm.append([side.measure(64, stream=True, tokens=NUM_TOKENS, spread_s=2.0) for side in sides])
    chunks = [
        [(long.cpu_s - short.cpu_s) / (NUM_TOKENS - SHORT_TOKENS) for long, short in zip(*pair, strict=True)]
        for pair in zip(streamed, shorter, strict=True)
    ]
    p50 = [[statistics.median(cost.latencies_s) for cost in pair] for pair in calm]
    return {
        "chunk_cpu": _paired(chunks, 1e6, "us"),
        "request_cpu": _paired([[cost.cpu_s for cost in pair] for pair in streamed], 1e3, "ms"),
        "whole_reply_cpu": _paired([[cost.cpu_s for cost in pair] for pair in whole], 1e3, "ms"),
        "latency_p50": _paired(p50, 1e3, "ms"),
        "added_p50": Figure(1e3 * statistics.median(mine - bare for mine, bare in p50), "ms"),
        "streams": Figure(num_streams, "streams"),
    }


def _paired(rounds: Sequence[Sequence[float]], scale: float, unit: str) -> Figure:
    """Medians over the rounds of (proxy, pass-through), and the median of their ratios."""
    value, baseline = (scale * statistics.median(pair[side] for pair in rounds) for side in (0, 1))
    return Figure(value, unit, baseline, statistics.median(mine / bare for mine, bare in rounds))


@dataclass(frozen=True)
class Side:
    """One of the two servers that are compared."""

    name: str
    urls: list[str]
    pid: int

    def measure(self, num_streams: int, *, stream: bool, tokens: int, spread_s: float = 0.0) -> Cost:
        urls = self.urls[:num_streams]
        asyncio.run(_load(urls, self.pid, stream=stream, tokens=1))
        return asyncio.run(_load(urls, self.pid, stream=stream, tokens=tokens, spread_s=spread_s))


def _sides(stack: contextlib.ExitStack, num_streams: int, interval_s: float) -> tuple[Side, Side]:
    """The proxy and the bare pass-through, before one engine."""
    [word] = rendering(BUNDLED_POLICY).tokenizer.encode(" the")[:1]
    pace = ("--tokens", str(NUM_TOKENS), "--token-id", str(word), "--interval", str(interval_s))
    engine_url, _ = stack.enter_context(stage.process("agents.proxy.scripted", *pace))
    bare_url, bare_pid = stack.enter_context(stage.process("gyreweb.bench.passthrough", engine_url))
    keys = stage.executions(engine_url, num_streams, context_tokens=4096, max_new_tokens=NUM_TOKENS)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    proxy_url, proxy_pid = stack.enter_context(stage.proxy(folder))
    recording = [f"{proxy_url}/x/{key}" for key in keys]
    return Side("proxy", recording, proxy_pid), Side("pass-through", [bare_url] * len(keys), bare_pid)


async def _load(urls: list[str], pid: int, *, stream: bool, tokens: int, spread_s: float = 0.0) -> Cost:
    """One request for every url, their starts spread over `spread_s`. Each opens a conversation of its own."""
    latencies: list[float] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def client(number: int, url: str) -> None:
            await asyncio.sleep(spread_s * number / len(urls))
            body = request(stream, tokens)
            started = time.perf_counter()
            async with session.post(f"{url}/v1/chat/completions", data=body) as response:
                if response.status != 200:
                    raise RuntimeError(f"{url} answered {response.status}: {await response.text()}")
                async for _chunk in response.content.iter_any():
                    pass
            latencies.append(time.perf_counter() - started)

        before = stage.cpu_s(pid)
        await asyncio.gather(*(client(number, url) for number, url in enumerate(urls)))
        used = stage.cpu_s(pid) - before
    return Cost(used / len(latencies), latencies)


def request(stream: bool, tokens: int) -> bytes:
    """A body of BODY_BYTES that no other request shares a prefix with."""
    message = {"role": "user", "content": f"{secrets.token_hex(8)} "}
    body = {"model": "policy", "stream": stream, "max_tokens": tokens, "messages": [message]}
    words = "read the file and write the word " * (BODY_BYTES // 33 + 1)
    message["content"] += words[: BODY_BYTES - len(orjson.dumps(body))]
    return orjson.dumps(body)
