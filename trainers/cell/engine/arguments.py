"""Command lines of the SGLang server (SGLang 0.5.23; docs/cells.md).

The CPU line is what runs here. The GPU line is generated and unit-tested, and has not been run: no GPU was at hand.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class EngineSpec:
    """What a cell's engine must be. `key` guards every endpoint; it listens on `host`, which is loopback unless set."""

    model_path: str
    port: int
    key: str
    seed: int
    context_tokens: int
    max_calls: int
    kv_tokens: int
    served_name: str = "policy"
    host: str = LOOPBACK
    dtype: str = "float32"


@dataclass(frozen=True)
class GpuPlan:
    """Layout and memory plan of an engine on GPUs."""

    tensor_parallel: int = 1
    expert_parallel: int = 1
    mem_fraction: float = 0.85
    hicache_store: Mapping[str, object] | None = None
    extra: tuple[str, ...] = field(default_factory=tuple)


def _common(spec: EngineSpec) -> list[str]:
    options = {
        "--model-path": spec.model_path,
        "--served-model-name": spec.served_name,
        "--host": spec.host,
        "--port": spec.port,
        "--api-key": spec.key,
        "--admin-api-key": spec.key,
        "--dtype": spec.dtype,
        "--context-length": spec.context_tokens,
        "--max-running-requests": spec.max_calls,
        "--random-seed": spec.seed,
        "--log-level": "warning",
        "--grammar-backend": "none",
    }
    flags = ["--skip-server-warmup", "--sleep-on-idle", "--incremental-streaming-output"]
    return [part for name, value in options.items() for part in (name, str(value))] + flags


def cpu_arguments(spec: EngineSpec) -> list[str]:
    """Arguments of a CPU engine: plain torch attention and sampling, no overlap, no graphs."""
    options = {
        "--device": "cpu",
        "--attention-backend": "torch_native",
        "--sampling-backend": "pytorch",
        "--cuda-graph-backend-decode": "disabled",
        "--cuda-graph-backend-prefill": "disabled",
        "--max-total-tokens": spec.kv_tokens,
        "--mem-fraction-static": 0.1,
    }
    line = [part for name, value in options.items() for part in (name, str(value))]
    return [*_common(spec), *line, "--disable-overlap-schedule"]


def gpu_arguments(spec: EngineSpec, plan: GpuPlan) -> list[str]:
    """Arguments of a GPU engine (not run here): memory saver for role switches, a KV store when one is given.

    Its store keys carry no weight version, so every request must carry `extra_key` (the proxy sets it).
    """
    line = [
        *_common(spec),
        "--device",
        "cuda",
        "--enable-memory-saver",
        "--enable-weights-cpu-backup",
        "--mem-fraction-static",
        str(plan.mem_fraction),
        "--tp-size",
        str(plan.tensor_parallel),
    ]
    if plan.expert_parallel > 1:
        line += ["--ep-size", str(plan.expert_parallel)]
    if plan.hicache_store is not None:
        line += [
            "--enable-hierarchical-cache",
            "--page-size",
            "64",
            "--hicache-write-policy",
            "write_through",
            "--hicache-io-backend",
            "direct",
            "--hicache-mem-layout",
            "page_first_direct",
            "--hicache-storage-backend",
            "mooncake",
            "--hicache-storage-prefetch-policy",
            "timeout",
            "--hicache-storage-backend-extra-config",
            json.dumps(dict(plan.hicache_store), sort_keys=True),
        ]
    return [*line, *plan.extra]
