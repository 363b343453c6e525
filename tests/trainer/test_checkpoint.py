"""Checkpoints: whole, verified, pruned, and never half there (docs/algorithms.md §11)."""

import errno
import os
from pathlib import Path

import pytest
import torch

from tests.integration import tiny_policy
from trainers.cell.training import checkpoint
from trainers.checkpoint_files import BadCheckpoint

OPTIMIZER = [{"torch": {"state": {0: {"exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 0.1}]}, "main": []}]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy.write(tmp_path_factory.mktemp("policy") / "tiny")


def write(run: Path, policy: Path, version: int, seed: int = 0) -> checkpoint.Written:
    return checkpoint.write(run, version, tiny_policy.weights(seed=seed), OPTIMIZER, {"batch": version}, policy)


def test_what_is_written_comes_back_and_transformers_loads_it(tmp_path: Path, policy: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    written = write(tmp_path, policy, 3)
    restored = checkpoint.read(written.path, written.sha256)
    assert (restored.version, restored.cursor) == (3, {"batch": 3})
    assert all(torch.equal(restored.weights[name], value) for name, value in tiny_policy.weights().items())
    assert torch.equal(restored.optimizer[0]["torch"]["state"][0]["exp_avg"], torch.ones(3))
    assert AutoModelForCausalLM.from_pretrained(written.path / "hf").config.tie_word_embeddings
    assert len(AutoTokenizer.from_pretrained(written.path / "hf")) == tiny_policy.VOCAB_SIZE
    assert written.num_bytes > 500_000


def test_a_damaged_or_foreign_file_is_refused_by_name(tmp_path: Path, policy: Path) -> None:
    written = write(tmp_path, policy, 1)
    with pytest.raises(BadCheckpoint, match="not the file that was committed"):
        checkpoint.read(written.path, "0" * 64)
    weights = written.path / checkpoint.WEIGHTS
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors was changed"):
        checkpoint.read(written.path, written.sha256)
    (written.path / checkpoint.OPTIMIZER).unlink()
    with pytest.raises(BadCheckpoint):
        checkpoint.read(written.path)
    with pytest.raises(BadCheckpoint):
        checkpoint.read(tmp_path / "nowhere")


def test_a_leftover_that_was_never_committed_is_replaced(tmp_path: Path, policy: Path) -> None:
    write(tmp_path, policy, 2, seed=1)
    again = write(tmp_path, policy, 2, seed=2)
    found = checkpoint.read(again.path, again.sha256).weights["model.norm.weight"]
    assert torch.equal(found, tiny_policy.weights(seed=2)["model.norm.weight"])
    assert [path.name for path in again.path.parent.iterdir()] == ["v2"]


def test_pruning_keeps_the_newest_and_the_protected(tmp_path: Path, policy: Path) -> None:
    for version in range(12):
        (tmp_path / "checkpoints" / f"v{version}").mkdir(parents=True)
    assert checkpoint.prune(tmp_path, keep=3, protected=[2]) == [0, 1, *range(3, 9)]
    assert checkpoint.prune(tmp_path, keep=0) == [2, 9, 10]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["v11"]
    assert checkpoint.prune(tmp_path, keep=3) == []


def test_a_full_disk_leaves_the_older_checkpoint_and_nothing_half_made(
    tmp_path: Path, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = write(tmp_path, policy, 1)
    (tmp_path / "checkpoints" / ".v2.99999999.tmp" / "hf").mkdir(parents=True)  # a core that died left this

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path, policy, 2)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["v1"]
    assert checkpoint.read(older.path, older.sha256).version == 1
    assert checkpoint.read(write(tmp_path, policy, 2).path).version == 2
