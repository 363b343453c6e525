"""Two tensor ranks or two pipeline stages give the step of one rank (gloo, two processes)."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.integration import tiny_policy
from tests.trainer import ranks
from trainers.cell.training import trainer

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.filterwarnings("ignore:MLP requires ffn_hidden_size:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*tp_group is None:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.distributed:FutureWarning"),
]


@pytest.fixture
def alone() -> Iterator[None]:
    trainer.init_process(ranks.LAYOUTS["alone"])
    yield
    trainer.end_process()


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_ranks_together_do_what_one_does(tmp_path: Path, alone: None, tied: bool) -> None:
    policy = tiny_policy.write(tmp_path / "policy", tied=tied)
    command = [sys.executable, "-m", "tests.trainer.ranks"]
    processes = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store"), str(policy), str(tmp_path)], cwd=ROOT)
        for rank in range(2)
    ]
    assert [process.wait(timeout=600) for process in processes] == [0, 0]
    wanted = ranks.one_step(ranks.LAYOUTS["alone"], policy)
    saved = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
    for rank in range(2):
        assert saved[rank]["tp2"].keys() == wanted.keys()
    assert saved[0]["pp2"].keys() | saved[1]["pp2"].keys() == wanted.keys()
    assert saved[0]["pp2"].keys() & saved[1]["pp2"].keys() == {"grad_norm"}
    for found in (saved[0]["tp2"], saved[1]["tp2"], saved[0]["pp2"], saved[1]["pp2"]):
        for name, value in found.items():
            if name == "grad_norm":
                assert float(value) == pytest.approx(float(wanted[name]), rel=1e-4)
            else:
                # Adam's first step is the learning rate wherever the gradient is clear of its epsilon.
                close = torch.isclose(value, wanted[name], atol=1e-4)
                assert close.float().mean() > 0.995, name
