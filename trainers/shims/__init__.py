"""Two import shims that let SGLang start on a machine without CUDA (`torchvision`, `sgl_kernel`).

They stand in only for packages that are not installed, and refuse to load where CUDA is present:
there the real packages are needed. Everything else of SGLang is unmodified.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

SHIMS = {"torchvision": "trainers.shims.torchvision", "sgl_kernel": "trainers.shims.sgl_kernel"}


class CudaPresent(ImportError):
    """The shims were asked for on a machine with CUDA, where they would hide the real kernels."""


class _Finder(importlib.abc.MetaPathFinder):
    """Comes last on the path, so an installed package always wins over its shim."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        module = SHIMS.get(fullname) or (SHIMS["torchvision"] if fullname.startswith("torchvision.") else None)
        source = importlib.util.find_spec(module) if module else None
        if source is None or source.origin is None:
            return None
        return importlib.util.spec_from_file_location(fullname, source.origin, submodule_search_locations=[])


def install() -> None:
    """Make the shims importable in this process and in those it forks. Raises CudaPresent."""
    import torch

    if torch.cuda.is_available():
        raise CudaPresent("the CPU shims of SGLang must not be used where CUDA is present")
    os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
