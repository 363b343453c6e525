"""What a long execution costs the proxy in memory (docs/proxy.md, "Memory").

One execution grows to a million unique tokens in hundreds of calls, each of which reads all that came before.
`bytes_per_token` is the growth of the proxy's resident memory per unique token, after its last call; the baseline is
one prompt per call kept as ids of four bytes. `rebuild` is how long a session takes to come back from Postgres.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from agents.models import Call
from agents.proxy.rendering import Rendering
from gyreweb.bench import scratch, stage
from gyreweb.bench.figures import Figure
from gyreweb.bench.tokenize import CONTEXT_TOKENS, SENTENCE, wide_policy

NUM_CALLS = 200
UNIQUE_TOKENS = 1_000_000
REPLY_TOKENS = 100


def run() -> Mapping[str, Figure]:
    """Figures of `manage.py bench sessions`."""
    with tempfile.TemporaryDirectory() as folder, scratch.database():
        policy = wide_policy(Path(folder))
        rendering = Rendering(policy)
        [word] = rendering.tokenizer.encode(" the")[:1]
        per_call = UNIQUE_TOKENS // NUM_CALLS - REPLY_TOKENS
        text = SENTENCE * (per_call * 100 // len(rendering.tokenizer.encode(SENTENCE * 100)))
        script = ("--tokens", str(REPLY_TOKENS - 1), "--token-id", str(word), "--end-id", str(rendering.close_id))
        with stage.process("agents.proxy.scripted", *script) as (engine_url, _):
            [key] = stage.executions(
                engine_url,
                1,
                policy_path=str(policy),
                policy_context_tokens=CONTEXT_TOKENS,
                max_new_tokens=REPLY_TOKENS,
            )
            with stage.proxy(Path(folder)) as (url, pid):
                stage.ask(url, key, [{"role": "user", "content": "a first word"}])
                before = stage.resident_bytes(pid)
                messages = _grow(url, key, text)
                grown = stage.resident_bytes(pid) - before
                health = httpx.get(f"{url}/health", timeout=60).json()
            with stage.proxy(Path(folder)) as (url, _):
                started = time.perf_counter()
                httpx.get(f"{url}/x/{key}/v1/models", timeout=300).raise_for_status()
                rebuilt_s = time.perf_counter() - started
                stage.ask(url, key, messages)
        last = Call.objects.order_by("-number").values("input_tokens", "prefix_tokens", "false_fork")[0]
        if last["false_fork"] or last["prefix_tokens"] < UNIQUE_TOKENS // 2:
            raise AssertionError(f"the rebuilt session did not extend its last call: {last}")
        prompt_tokens = sum(Call.objects.values_list("input_tokens", flat=True))
    unique = health["tokens"]
    return {
        "bytes_per_token": Figure.against(grown / unique, 4 * prompt_tokens / unique, "bytes"),
        "held_bytes_per_token": Figure(health["bytes_per_token"], "bytes"),
        "unique_tokens": Figure.against(unique, prompt_tokens, "tokens"),
        "calls": Figure(NUM_CALLS, "calls"),
        "rebuild": Figure(rebuilt_s, "s"),
    }


def _grow(url: str, key: str, text: str) -> list[dict[str, Any]]:
    """The messages of the last request and its reply."""
    messages: list[dict[str, Any]] = []
    for number in range(NUM_CALLS):
        messages.append({"role": "user", "content": f"result {number}: {text}"})
        messages.append({"role": "assistant", "content": stage.ask(url, key, messages)})
        if number % 20 == 0:
            print(f"call {number} of {NUM_CALLS}", file=sys.stderr)
    messages.append({"role": "user", "content": "the last word"})
    return messages
