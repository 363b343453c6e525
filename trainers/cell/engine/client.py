"""Client of one SGLang server: readiness, load, and weight updates that are verified (docs/cells.md).

A weight update empties the engine: every request was sent under the key of the old weights, so it is aborted, and the
proxy sends it again, with what it has sampled, under the key of the new ones. Then the cache is flushed, the weights
change between begin and end, and version and checksums are compared (docs/cells.md "Rules worth knowing").
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
import torch

NamedTensors = Mapping[str, torch.Tensor]

READY_POLL_S = 0.25
FLUSH_POLL_S = 0.02
#: How long aborted requests may take to end: one forward pass, a long prefill at worst.
EMPTY_WITHIN_S = 60.0


class EngineError(RuntimeError):
    """The engine refused a command, or its weights are not the ones that were sent."""


class EngineEnded(EngineError):
    """The engine's process is gone."""


class EngineClient:
    """Talks to the engine at `url`. Every method raises EngineError or requests.RequestException."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"Bearer {key}"

    def close(self) -> None:
        self._session.close()

    def wait_ready(self, timeout_s: float, still_alive: Callable[[], bool] = lambda: True) -> None:
        """Wait for the server's /ready. `still_alive` is asked between polls. Raises EngineEnded, EngineError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not still_alive():
                raise EngineEnded("the engine ended before it was ready; its log says why")
            try:
                if self._session.get(f"{self.url}/ready", timeout=5).status_code == 200:
                    return
            except (requests.ConnectionError, requests.Timeout):
                pass
            time.sleep(READY_POLL_S)
        raise EngineError(f"the engine was not ready within {timeout_s:g} s")

    def generate(self, **body: Any) -> dict[str, Any]:
        return self._post("/generate", body, timeout_s=600)

    def loads(self) -> dict[str, int]:
        """Running and waiting calls, and KV tokens in use."""
        reply = self._session.get(f"{self.url}/v1/loads", timeout=10)
        reply.raise_for_status()
        rows = reply.json()["loads"]
        return {
            "num_calls": sum(row["num_running_reqs"] + row["num_waiting_reqs"] for row in rows),
            "num_kv_tokens": sum(row["num_used_tokens"] for row in rows),
        }

    def weight_version(self) -> str:
        reply = self._session.get(f"{self.url}/model_info", timeout=10)
        reply.raise_for_status()
        return str(reply.json()["weight_version"])

    def release_memory(self) -> None:
        """Give the engine's memory back (needs a memory saver, so a GPU). The engine must be idle: else it dies."""
        self._post("/release_memory_occupation", {"tags": ["kv_cache", "weights"]})

    def resume_memory(self) -> None:
        self._post("/resume_memory_occupation", {"tags": ["kv_cache", "weights"]})

    @contextmanager
    def emptied(self) -> Iterator[None]:
        """No request inside: running ones are aborted, and so are those that arrived while the engine was paused.

        It serves again afterwards, whatever happens.
        """
        self.abort_all()
        self._post("/pause_generation", {"mode": "retract"})
        try:
            yield
            self.abort_all()
        finally:
            self._post("/continue_generation", {})

    def abort_all(self) -> None:
        """End every request, running or waiting; each client gets what was sampled. Raises EngineError."""
        deadline = time.monotonic() + EMPTY_WITHIN_S
        while self.loads()["num_calls"]:
            if time.monotonic() >= deadline:
                raise EngineError(f"aborted requests had not ended after {EMPTY_WITHIN_S:g} s")
            self._post("/abort_request", {"abort_all": True})
            time.sleep(FLUSH_POLL_S)

    def flush(self, timeout_s: float = 30.0) -> None:
        """Drop all KV. Store traffic still in flight counts as busy, hence the retries."""
        deadline = time.monotonic() + timeout_s
        while True:
            reply = self._session.post(f"{self.url}/flush_cache", timeout=timeout_s + 5)
            if reply.status_code == 200:
                return
            if time.monotonic() >= deadline:
                raise EngineError(f"the engine's cache could not be flushed: {reply.text.strip()}")
            time.sleep(FLUSH_POLL_S)

    def load_weights(self, weights: NamedTensors, version: int) -> None:
        """Replace the weights by `weights` (Hugging Face names) as `version`, and verify them. Pauses nothing."""
        self._post("/begin_weight_update", {"selector": "all"})
        try:
            body = {
                "serialized_named_tensors": [_serialised(weights)],
                "load_format": "flattened_bucket",
                "flush_cache": True,
                "weight_version": str(version),
            }
            reply = self._post("/update_weights_from_tensor", body)
            if not reply.get("success"):
                raise EngineError(f"the engine refused weights {version}: {reply.get('message')}")
        finally:
            self._post("/end_weight_update", {})
        self.verify(weights, version)

    def verify(self, weights: NamedTensors, version: int) -> None:
        """Compare the engine's version and the SHA-256 of each of its tensors with `weights`."""
        if (found := self.weight_version()) != str(version):
            raise EngineError(f"the engine reports weight version {found!r} instead of {version}")
        reply = self._post("/weights_checker", {"action": "checksum"})
        if not reply.get("success"):
            raise EngineError(f"the engine could not compute checksums: {reply.get('message')}")
        found_sums: dict[str, str] = reply["ranks"][0]["checksums"]
        wanted = engine_checksums(weights)
        wrong = sorted(name for name, digest in wanted.items() if found_sums.get(name, digest) != digest)
        missing = sorted(set(wanted) - set(found_sums))
        if wrong or missing:
            raise EngineError(f"weights {version} differ in the engine: wrong {wrong[:4]}, missing {missing[:4]}")

    def _post(self, path: str, body: Mapping[str, Any], timeout_s: float = 60.0) -> Any:
        reply = self._session.post(f"{self.url}{path}", json=body, timeout=timeout_s)
        if reply.status_code != 200:
            raise EngineError(f"{path} answered {reply.status_code}: {reply.text[:400]}")
        return reply.json() if reply.content else None


def _serialised(weights: NamedTensors) -> str:
    """One flat bucket, shared through a file in shared memory: the default strategy kills a CPU scheduler."""
    from sglang.srt.utils import MultiprocessingSerializer
    from sglang.srt.weight_sync.tensor_bucket import FlattenedTensorBucket

    torch.multiprocessing.set_sharing_strategy("file_system")
    bucket = FlattenedTensorBucket(named_tensors=[(name, tensor.contiguous()) for name, tensor in weights.items()])
    flat = {"flattened_tensor": bucket.get_flattened_tensor(), "metadata": bucket.get_metadata()}
    return str(MultiprocessingSerializer.serialize(flat, output_str=True))


def fused_as_in_engine(weights: NamedTensors) -> dict[str, torch.Tensor]:
    """Hugging Face tensors under the engine's own names: q, k, v and gate, up are stored joined (one TP rank)."""
    joined: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        if name.endswith("self_attn.q_proj.weight"):
            parts = [weights[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
            joined[name.replace("q_proj", "qkv_proj")] = torch.cat(parts)
        elif name.endswith("mlp.gate_proj.weight"):
            parts = [weights[name.replace("gate_proj", part)] for part in ("gate_proj", "up_proj")]
            joined[name.replace("gate_proj", "gate_up_proj")] = torch.cat(parts)
        elif not name.endswith(("k_proj.weight", "v_proj.weight", "up_proj.weight")):
            joined[name] = tensor
    return joined


def engine_checksums(weights: NamedTensors) -> dict[str, str]:
    """The checksums that SGLang's weights checker must report on CPU: the first 8 bytes of SHA-256, in hex."""
    return {name: _digest(tensor) for name, tensor in fused_as_in_engine(weights).items()}


def _digest(tensor: torch.Tensor) -> str:
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(raw.data).hexdigest()[:16]
