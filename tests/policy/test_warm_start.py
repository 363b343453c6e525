"""The warm start: it can be repeated, it learns, and its command writes a usable folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from django.core.management import CommandError, call_command

from agents.proxy.rendering import BUNDLED_POLICY, Rendering, rendering
from trainers.policy import folder, warmstart
from trainers.policy.model import build_model
from trainers.policy.warmstart import WarmStart, warm_start

pytestmark = pytest.mark.usefixtures("one_torch_thread")  # as in the command
SHORT = WarmStart(steps=16, dialogues_per_step=4)


def losses_and_weights(settings: WarmStart) -> tuple[list[float], dict[str, torch.Tensor]]:
    losses: list[float] = []
    model = warm_start(rendering(BUNDLED_POLICY), settings, lambda step, loss: losses.append(loss))
    return losses, model.state_dict()


def test_the_same_seed_gives_the_same_policy_and_another_seed_another_one() -> None:
    losses, weights = losses_and_weights(SHORT)
    again, same = losses_and_weights(SHORT)
    other, _ = losses_and_weights(WarmStart(seed=1, steps=1, dialogues_per_step=4))
    assert losses == again
    assert all(torch.equal(weights[name], same[name]) for name in weights)
    assert other[0] != losses[0]
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])


def test_every_head_starts_by_passing_on_what_it_attends_to() -> None:
    model = build_model(num_tokens=1320, end_of_turn=1296, padding=1294, seed=0)
    hidden = torch.randn(3, 64)
    for layer in model.model.layers:
        attention = layer.self_attn
        groups = attention.v_proj(hidden).view(3, 2, 32)
        passed_on = attention.o_proj(groups.repeat_interleave(2, dim=1).reshape(3, -1))
        assert torch.allclose(passed_on, hidden, atol=1e-4)


def test_the_command_writes_a_folder_that_the_proxy_and_transformers_read(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    call_command("make_policy", "--steps", "1", "--out", str(tmp_path / "made"))
    assert {file.name for file in (tmp_path / "made").iterdir()} == {file.name for file in folder.BUNDLED.iterdir()}
    assert Rendering(tmp_path / "made").close_id == rendering(BUNDLED_POLICY).close_id
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "made").config.vocab_size == 1408


def test_an_interrupted_command_leaves_the_old_policy_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(warmstart, "warm_start", interrupted)
    with pytest.raises(CommandError, match="nothing was written"):
        call_command("make_policy", "--out", str(tmp_path / "made"))
    assert not (tmp_path / "made").exists()
