"""The two import shims of SGLang on CPU: small, last on the path, and never beside CUDA."""

import importlib
import sys

import pytest
import torch

from trainers import shims


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in [name for name in sys.modules if name.split(".")[0] in shims.SHIMS]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("SGLANG_USE_CPU_ENGINE", "")
    shims.install()


def test_they_refuse_to_load_where_cuda_is_present(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(shims.CudaPresent):
        shims.install()


def test_the_one_real_operation_fills_the_rows_of_the_token_pool(installed: None) -> None:
    kernel = importlib.import_module("sgl_kernel")
    pool = torch.zeros(3, 6, dtype=torch.int32)
    kernel.assign_req_to_token_pool_cpu(
        torch.tensor([2, 0]), pool, torch.tensor([1, 0]), torch.tensor([3, 2]), torch.tensor([7, 8, 9, 5]), 6
    )
    assert pool.tolist() == [[9, 5, 0, 0, 0, 0], [0] * 6, [0, 7, 8, 0, 0, 0]]


def test_everything_else_says_that_it_is_missing(installed: None) -> None:
    kernel = importlib.import_module("sgl_kernel")
    with pytest.raises(NotImplementedError, match="verify_tree_greedy_cpu"):
        kernel.verify_tree_greedy_cpu()
    with pytest.raises(AttributeError):
        _ = kernel.some_new_operation
    with pytest.raises(ImportError):
        importlib.import_module("sgl_kernel.scalar_type")
    transforms = importlib.import_module("torchvision.transforms.v2.functional")
    with pytest.raises(NotImplementedError, match="images"):
        transforms.resize()
