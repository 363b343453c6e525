"""The Megatron trainer against transformers, against itself, and against the arithmetic of docs/algorithms.md §8."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.integration import tiny_policy
from tests.integration.payloads import random_payload
from trainers.cell.training import model, trainer
from trainers.cell.training.trainer import Trainer, TrainerSettings
from trainers.core.loss import LossSettings
from trainers.core.payload import Payload

# Megatron's own deprecations, inside Megatron.
pytestmark = [
    pytest.mark.filterwarnings("ignore:MLP requires ffn_hidden_size:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*tp_group is None:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.distributed:FutureWarning"),
]

SETTINGS = TrainerSettings(1e-2, (0.9, 0.95), 1e9, 1.0, LossSettings("reinforce_is"))


@pytest.fixture(scope="module", autouse=True)
def _one_process() -> Iterator[None]:
    torch.set_num_threads(1)
    trainer.init_process(SETTINGS.layout)
    yield
    trainer.end_process()


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy.write(tmp_path_factory.mktemp("policy") / "tiny", tied=request.param)


def build(policy: Path, settings: TrainerSettings = SETTINGS, with_optimizer: bool = True) -> Trainer:
    built = Trainer(model.read_hf_config(policy), settings, with_optimizer=with_optimizer)
    built.load_hf(trainer.read_weights(policy))
    return built


def targets(payload: Payload) -> list[tuple[list[int], int]]:
    """(ids before the target in its own trajectory, target)."""
    found = []
    for start, end in zip(payload.cu_seqlens, payload.cu_seqlens[1:], strict=False):
        ids = payload.input_ids[start:end].tolist()
        found += [(ids[:at], ids[at]) for at in range(1, end - start) if payload.target_mask[start + at]]
    return found


def test_logprobs_are_those_of_transformers_at_the_same_temperature(policy: Path) -> None:
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32).eval()
    payload = random_payload(3)
    mine = build(policy, replace(SETTINGS, temperature=0.7)).logprobs(payload)
    with torch.no_grad():
        for value, (context, target) in zip(mine, targets(payload), strict=True):
            logits = reference(torch.tensor([context])).logits[0, -1]
            assert abs(value - (logits / 0.7).log_softmax(-1)[target]) < 1e-5


def test_weights_go_in_and_out_unchanged(policy: Path) -> None:
    exported, wanted = build(policy).export_hf(), trainer.read_weights(policy)
    assert exported.keys() == wanted.keys()
    assert all(torch.equal(exported[name], wanted[name]) for name in wanted)


def test_gradients_are_sums_over_chunks_however_they_are_cut(policy: Path) -> None:
    payloads = [random_payload(seed) for seed in range(4)]

    def summed(cuts: list[list[Payload]]) -> torch.Tensor:
        built = build(policy, with_optimizer=False)
        for chunk in cuts:
            built.forward_backward(chunk)
        return torch.cat(built.gradient_buffers()).clone()

    whole, single = summed([payloads]), summed([[payload] for payload in payloads])
    split = summed([payloads[:1]]) + summed([payloads[1:]])
    scale = whole.abs().max()
    assert scale > 0
    assert (whole - single).abs().max() < 1e-6 * scale
    assert (whole - split).abs().max() < 1e-6 * scale


def test_packing_neither_mixes_trajectories_nor_changes_the_gradient(policy: Path) -> None:
    packed = random_payload(9, num_trajectories=3)
    parts = []
    for start, end in zip(packed.cu_seqlens, packed.cu_seqlens[1:], strict=False):
        arrays = {
            name: getattr(packed, name)[start:end] for name in packed.__dataclass_fields__ if name != "cu_seqlens"
        }
        parts.append(Payload(cu_seqlens=np.array([0, end - start], np.int32), **arrays))
    one, three = build(policy), build(policy)
    one.forward_backward([packed])
    three.forward_backward(parts)
    a, b = torch.cat(one.gradient_buffers()), torch.cat(three.gradient_buffers())
    assert (a - b).abs().max() < 1e-6 * a.abs().max()


def test_the_sum_is_divided_by_the_number_of_votes_once_and_then_clipped(policy: Path) -> None:
    norms = {}
    for num_votes in (1, 8):
        built = build(policy)
        built.forward_backward([random_payload(1)])
        norms[num_votes] = built.step(num_votes).grad_norm
        assert not torch.cat(built.gradient_buffers()).any()
    assert norms[1] == pytest.approx(8 * norms[8], rel=1e-5)


def test_a_step_does_what_adam_does(policy: Path) -> None:
    built = build(policy)
    built.forward_backward([random_payload(1)])
    names = {id(p): name for name, p in built.model.named_parameters()}
    before = {names[id(p)]: (p.detach().clone(), p.main_grad.clone() / 4) for p in built.model.parameters()}
    built.step(4)
    for name, parameter in built.model.named_parameters():
        start, gradient = before[name]
        wanted = start - 1e-2 * gradient / (gradient.abs() + 1e-8)
        clear = gradient.abs() > 1e-5
        assert torch.allclose(parameter[clear], wanted[clear], atol=2e-5), name


def test_a_micro_step_without_targets_adds_nothing(policy: Path) -> None:
    payload = random_payload(2)
    empty = replace(payload, target_mask=np.zeros_like(payload.target_mask))
    built = build(policy, with_optimizer=False)
    [metrics] = built.forward_backward([empty])
    assert metrics.num_targets == 0
    assert not torch.cat(built.gradient_buffers()).any()


def test_the_optimizer_goes_on_where_it_was_saved(policy: Path, tmp_path: Path) -> None:
    through = build(policy)
    through.forward_backward([random_payload(1)])
    through.step(3)
    torch.save(through.optimizer_state(), tmp_path / "state.pt")
    weights = {name: value.clone() for name, value in through.export_hf().items()}
    resumed = build(policy)
    resumed.load_hf(weights)
    resumed.load_optimizer_state(torch.load(tmp_path / "state.pt", weights_only=True))
    for one in (through, resumed):
        one.forward_backward([random_payload(2)])
        one.step(3)
    assert all(torch.equal(a, b) for a, b in zip(through.parameter_buffers(), resumed.parameter_buffers(), strict=True))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("model_type", "llama"),
        ("attention_bias", True),
        ("hidden_act", "gelu"),
        ("rope_scaling", {"rope_type": "yarn"}),
    ],
)
def test_a_model_that_cannot_be_built_is_refused_by_its_setting(tmp_path: Path, setting: str, value: object) -> None:
    import json

    (tmp_path / "config.json").write_text(json.dumps({**tiny_policy.CONFIG, setting: value}))
    with pytest.raises(model.UnsupportedModel, match=setting):
        model.read_hf_config(tmp_path)
