"""What the cell host imports before it forks, and what its children run."""

import gc
import importlib
import logging
import multiprocessing
import os
import warnings

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "SGLANG_CPU_OMP_THREADS_BIND": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "GLOG_minloglevel": "2",
}
MODULES = (
    "sglang.launch_server",
    "sglang.srt.entrypoints.http_server",
    "sglang.srt.managers.scheduler",
    "sglang.srt.managers.detokenizer_manager",
    "sglang.srt.model_executor.model_runner",
    "sglang.srt.models.qwen3",
    "sglang.srt.weight_sync.tensor_bucket",
    "trainers.cell.agent",
)


def prepare() -> None:
    """Import everything once, on CPU with the shims. Nothing here may start a thread that a fork would lose."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    if not torch.cuda.is_available():
        from trainers import shims

        shims.install()
    # SGLang forces "spawn", which would import everything again in each of its processes.
    multiprocessing.set_start_method("fork", force=True)
    multiprocessing.set_start_method = lambda *_, **__: None
    logging.getLogger("sglang.srt.models.registry").setLevel(logging.ERROR)
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def run_agent(run_id: int, cell_index: int, epoch: int) -> int:
    from trainers.cell.agent import main

    return main(run_id, cell_index, epoch)


def run_engine(arguments: list[str]) -> int:
    """Become an SGLang server (blocks until it ends)."""
    from sglang.launch_server import run_server
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args

    load_plugins()
    run_server(prepare_server_args(arguments))
    return 0
