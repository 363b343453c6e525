"""The one module that knows whether there is a GPU (megatron-core 0.16.1).

On CPU, Megatron's training path runs unmodified over gloo once two things are in place: `install` replaces the
few `torch.cuda` functions that Megatron calls, and `scope`, entered around every call into Megatron, turns `cuda`
literals into `cpu`. On a GPU both do nothing. Nothing else in the worker asks which device it is on.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

ON_CPU = not torch.cuda.is_available()
DEVICE = torch.device("cpu") if ON_CPU else torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
BACKEND = "gloo" if ON_CPU else "nccl"

_installed = False


class _OneStream:
    """The single implicit stream of a CPU."""

    def wait_stream(self, *_: object) -> None: ...

    def wait_event(self, *_: object) -> None: ...

    def record_event(self, *_: object) -> None: ...

    def synchronize(self) -> None: ...


def _random_state(*_: object, **__: object) -> torch.Tensor:
    return torch.get_rng_state()


def _set_random_state(state: torch.Tensor, *_: object, **__: object) -> None:
    torch.set_rng_state(state)


def install() -> None:
    """Prepare this process for Megatron. Idempotent."""
    global _installed
    if not ON_CPU:
        torch.cuda.set_device(DEVICE)
        return
    if _installed:
        return
    _installed = True
    replacements: Mapping[str, Callable[..., Any]] = {
        "current_device": lambda: DEVICE,
        "set_device": lambda *_: None,
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
        "current_stream": lambda *_, **__: _OneStream(),
        "default_stream": lambda *_, **__: _OneStream(),
        "manual_seed": torch.default_generator.manual_seed,
        "get_rng_state": _random_state,
        "set_rng_state": _set_random_state,
    }
    for name, function in replacements.items():
        setattr(torch.cuda, name, function)
    # Megatron's random-state tracker reaches below the public interface.
    import megatron.core.tensor_parallel.random as megatron_random

    megatron_random._get_cuda_rng_state = _random_state
    megatron_random._set_cuda_rng_state = _set_random_state
    # It warns that the CPU's state changed where it expects the GPU's; here they are the same.
    logging.getLogger(megatron_random.__name__).addFilter(lambda r: "CPU RNG state changed" not in r.getMessage())


class _CudaMeansCpu(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if device is not None and str(device).startswith("cuda"):
            kwargs = {**kwargs, "device": "cpu"}
            kwargs.pop("pin_memory", None)
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.type and len(args) == 1 and not kwargs:
            # Megatron compares type names with those of CUDA tensors.
            return func(*args).replace("torch.", "torch.cuda.", 1)
        return func(*args, **kwargs)


def scope() -> contextlib.AbstractContextManager[Any]:
    """Enter it around every call into Megatron."""
    return _CudaMeansCpu() if ON_CPU else contextlib.nullcontext()
