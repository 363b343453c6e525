"""What the proxy tokenises (docs/algorithms.md §2.1), counted by itself while it answers real requests.

`per_new_token`: a conversation that only grows, as an agent's does. The count of tokens that the proxy made out of text
is divided by those that its prompts gained; the baseline renders every request of the same conversation anew.
`health_max`: the slowest of many requests of /health while a prompt of a million tokens is on its way; the baseline is
the slowest of as many requests of the idle proxy.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from agents.models import Call
from agents.proxy.rendering import BUNDLED_POLICY, Rendering
from agents.proxy.tokenizer import TOKENISED
from gyreweb.bench import scratch, stage
from gyreweb.bench.figures import Figure

NUM_CALLS = 60
WORDS_PER_RESULT = 300
REPLY_TOKENS = 40
LONG_PROMPT_TOKENS = 1_000_000
PROBE_EVERY_S = 0.01
CONTEXT_TOKENS = 2_000_000
SENTENCE = "read the file and write the word "


def run() -> Mapping[str, Figure]:
    """Figures of `manage.py bench tokenize`."""
    with tempfile.TemporaryDirectory() as folder, scratch.database():
        policy = wide_policy(Path(folder))
        rendering = Rendering(policy)
        [word] = rendering.tokenizer.encode(" the")[:1]
        script = ("--tokens", str(REPLY_TOKENS - 1), "--token-id", str(word), "--end-id", str(rendering.close_id))
        with stage.process("agents.proxy.scripted", *script) as (engine_url, _):
            keys = stage.executions(
                engine_url,
                3,
                policy_path=str(policy),
                policy_context_tokens=CONTEXT_TOKENS,
                max_new_tokens=REPLY_TOKENS,
            )
            with stage.proxy(Path(folder)) as (url, _):
                tokenised, requests = _converse(url, keys[0])
                new_tokens = sum(c.input_tokens - c.prefix_tokens for c in Call.objects.all())
                idle = _probe_health(url, lambda: time.sleep(3.0))
                busy = _probe_health(url, lambda: stage.ask(url, keys[1], _long_prompt(rendering)))
                long_tokens = Call.objects.order_by("-input_tokens").values_list("input_tokens", flat=True)[0]
        before = TOKENISED.count
        for messages in requests:
            rendering.prompt(messages, None)
        anew = TOKENISED.count - before
    print(f"{len(requests)} requests, {new_tokens:,} new tokens; {len(busy)} probes while busy", file=sys.stderr)
    return {
        "per_new_token": Figure.against(tokenised / new_tokens, anew / new_tokens, "tokens"),
        "tokenised": Figure.against(tokenised, anew, "tokens"),
        "health_max": Figure.against(max(busy), max(idle), "s"),
        "long_prompt": Figure(long_tokens, "tokens"),
    }


def wide_policy(folder: Path) -> Path:
    """The bundled policy's folder, made to take prompts of any length; its weights are not needed."""
    policy = folder / "policy"
    shutil.copytree(BUNDLED_POLICY, policy, ignore=shutil.ignore_patterns("*.safetensors"))
    config = json.loads((policy / "config.json").read_text())
    (policy / "config.json").write_text(json.dumps(config | {"max_position_embeddings": CONTEXT_TOKENS}))
    return policy


def _converse(url: str, key: str) -> tuple[int, list[list[dict[str, Any]]]]:
    """(tokens that the proxy tokenised, the requests' messages) of a conversation that only grows."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": SENTENCE * 40}]
    requests = []
    before = _health(url)["tokenised"]
    for number in range(NUM_CALLS):
        requests.append(list(messages))
        said = stage.ask(url, key, messages)
        text = f"result {number}: " + SENTENCE * (WORDS_PER_RESULT // 7)
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": text}]
    return _health(url)["tokenised"] - before, requests


def _probe_health(url: str, work: Any) -> list[float]:
    """Seconds that each request of /health took while `work` was done."""
    taken: list[float] = []
    done = threading.Event()

    def probe() -> None:
        with httpx.Client() as client:
            while not done.is_set():
                started = time.perf_counter()
                client.get(f"{url}/health", timeout=60)
                taken.append(time.perf_counter() - started)
                time.sleep(PROBE_EVERY_S)

    prober = threading.Thread(target=probe)
    prober.start()
    try:
        work()
    finally:
        done.set()
        prober.join()
    return taken


def _long_prompt(rendering: Rendering) -> list[dict[str, Any]]:
    per_sentence = len(rendering.tokenizer.encode(SENTENCE * 100)) / 100
    return [{"role": "user", "content": SENTENCE * int(LONG_PROMPT_TOKENS / per_sentence)}]


def _health(url: str) -> dict[str, Any]:
    health: dict[str, Any] = httpx.get(f"{url}/health", timeout=60).json()
    return health
