"""The trainer of one cell: Megatron's DDP, its schedule and its distributed optimizer (docs/cells.md).

Gradients are *sums* (docs/algorithms.md §8, §11): the loss returns three values under `calculate_per_token_loss` and
nothing finalises between chunks, so `grad_data` grows by the sum of every claimed micro-step. A satellite hands that
sum in unreduced. The core finalises once, scales by 1/|E|, clips and steps.

Run on CPU with world size 1, and its conversion with two tensor or pipeline ranks. Not run: GPUs, NCCL, Transformer
Engine, context or sequence parallelism, experts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.pipeline_parallel import get_forward_backward_func

from trainers.cell import device
from trainers.cell.training import convert, model
from trainers.core.loss import LossMetrics, LossSettings, token_loss
from trainers.core.payload import Payload


@dataclass(frozen=True)
class TrainerSettings:
    """Settings of the update. Weight decay is 0."""

    learning_rate: float
    betas: tuple[float, float]
    grad_clip: float
    temperature: float
    loss: LossSettings
    layout: model.Layout = field(default_factory=model.Layout)


@dataclass(frozen=True)
class StepResult:
    grad_norm: float
    learning_rate: float


@dataclass(frozen=True)
class _MicroStep:
    """A payload as tensors on the device; `rows` are the positions that predict the `targets`."""

    input_ids: torch.Tensor  # [1, T]
    packing: PackedSeqParams
    rows: torch.Tensor  # [n]
    targets: torch.Tensor  # [n]
    behaviour_logprobs: torch.Tensor  # [n]
    advantages: torch.Tensor  # [n]
    weights: torch.Tensor  # [n]
    call_ids: torch.Tensor  # [n]


def init_process(
    layout: model.Layout,
    store: dist.Store | None = None,  # type: ignore[name-defined]  # torch has it where it is built with distributed
    rank: int = 0,
    world_size: int = 1,
) -> None:
    """Set up torch.distributed and Megatron's groups in this process; once."""
    device.install()
    store = store or dist.HashStore()  # type: ignore[attr-defined]  # as above
    dist.init_process_group(device.BACKEND, store=store, rank=rank, world_size=world_size)
    with device.scope():
        parallel_state.initialize_model_parallel(layout.tensor_parallel, layout.pipeline_parallel)


def end_process() -> None:
    """Undo `init_process`."""
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()


class Trainer:
    """Holds parameters, gradients and, on the core, the optimizer. Not safe for threads."""

    def __init__(self, hf_config: dict[str, Any], settings: TrainerSettings, *, with_optimizer: bool) -> None:
        self.settings = settings
        with device.scope():
            self.model = model.build(hf_config, settings.layout)
            self.ddp = DistributedDataParallel(
                self.model.config,
                DistributedDataParallelConfig(use_distributed_optimizer=True, grad_reduce_in_fp32=True),
                self.model,
            )
            self.optimizer = self._build_optimizer() if with_optimizer else None
            self.ddp.zero_grad_buffer()
        self.model.config.finalize_model_grads_func = None
        self._forward_backward = get_forward_backward_func()

    def _build_optimizer(self) -> Any:
        rate = self.settings.learning_rate
        config = OptimizerConfig(
            optimizer="adam",
            lr=rate,
            min_lr=rate,
            weight_decay=0.0,
            adam_beta1=self.settings.betas[0],
            adam_beta2=self.settings.betas[1],
            adam_eps=1e-8,
            clip_grad=self.settings.grad_clip,
            params_dtype=self.settings.layout.dtype,
            bf16=self.settings.layout.dtype == torch.bfloat16,
            use_distributed_optimizer=True,
        )
        return get_megatron_optimizer(config, [self.ddp])

    # weights and gradients as flat buffers: the same layout on every cell

    def parameter_buffers(self) -> list[torch.Tensor]:
        """One contiguous tensor per dtype, which the parameters are views of."""
        return [buffer.param_data for buffer in self.ddp.buffers]

    def gradient_buffers(self) -> list[torch.Tensor]:
        """The gradient sums, one contiguous tensor per dtype."""
        return [buffer.grad_data for buffer in self.ddp.buffers]

    def zero_gradients(self) -> None:
        with device.scope():
            self.ddp.zero_grad_buffer()

    def add_gradients(self, sums: Sequence[torch.Tensor]) -> None:
        """Add the sums of another cell, buffer by buffer."""
        for mine, theirs in zip(self.gradient_buffers(), sums, strict=True):
            mine.add_(theirs)

    def load_hf(self, weights: convert.Tensors) -> None:
        tp_rank, tp_size = self._tensor_rank()
        convert.load(self.model, weights, tp_rank, tp_size)
        if self.optimizer is not None:
            self.optimizer.reload_model_params()

    def export_hf(self) -> dict[str, torch.Tensor]:
        """Current weights under Hugging Face names (views where possible)."""
        _, tp_size = self._tensor_rank()
        group = parallel_state.get_tensor_model_parallel_group() if tp_size > 1 else None
        return convert.export(self.model, tp_group=group, tp_size=tp_size)

    def _tensor_rank(self) -> tuple[int, int]:
        return (
            parallel_state.get_tensor_model_parallel_rank(),
            parallel_state.get_tensor_model_parallel_world_size(),
        )

    # work

    def forward_backward(self, payloads: Sequence[Payload]) -> list[LossMetrics]:
        """Add the gradient sums of a chunk of micro-steps; metrics per micro-step (empty off the last stage)."""
        with device.scope():
            stored = self._forward_backward(
                forward_step_func=self._forward_step,
                data_iterator=iter([_to_device(payload) for payload in payloads]),
                model=[self.ddp],
                num_microbatches=len(payloads),
                seq_length=max(payload.num_tokens for payload in payloads),
                micro_batch_size=1,
                forward_only=False,
            )
        return [entry["metrics"] for entry in stored]

    @torch.no_grad()
    def logprobs(self, payload: Payload) -> torch.Tensor:
        """Log-probabilities of the payload's targets at the run's temperature, [n]."""
        with device.scope():
            step = _to_device(payload)
            return self._target_logprobs(step, self._logits(self.model, step))

    def _forward_step(self, data: Iterator[_MicroStep], ddp: torch.nn.Module) -> tuple[torch.Tensor, Any]:
        step = next(data)

        def loss(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, LossMetrics]]:
            total, metrics = token_loss(
                self._target_logprobs(step, logits),
                step.behaviour_logprobs,
                step.advantages,
                step.weights,
                step.call_ids,
                self.settings.loss,
            )
            return total, torch.tensor(step.targets.numel(), dtype=torch.int), {"metrics": metrics}

        return self._logits(ddp, step), loss

    @staticmethod
    def _logits(module: torch.nn.Module, step: _MicroStep) -> torch.Tensor:
        positions = torch.arange(step.input_ids.shape[1], device=step.input_ids.device)[None]
        logits: torch.Tensor = module(step.input_ids, positions, None, packed_seq_params=step.packing)
        return logits

    def _target_logprobs(self, step: _MicroStep, logits: torch.Tensor) -> torch.Tensor:
        """`logits` [1, T, V/tp] → [n]. Divided by the temperature, since the engine's log-probabilities are."""
        scaled = logits[0, step.rows].float() / self.settings.temperature
        cross_entropy = tensor_parallel.vocab_parallel_cross_entropy(scaled[:, None], step.targets[:, None])
        return -cross_entropy[:, 0]

    def step(self, num_votes: int) -> StepResult:
        """Finalise the sums once, divide by |E|, clip, step, clear the gradients. Core only."""
        if self.optimizer is None:
            raise RuntimeError("only the core holds the optimizer")
        with device.scope():
            finalize_model_grads([self.ddp], None)
            self.ddp.scale_gradients(1.0 / num_votes)
            _, grad_norm, _ = self.optimizer.step()
            self.ddp.zero_grad_buffer()
        return StepResult(float(grad_norm), self.settings.learning_rate)

    # optimizer state of this rank, for checkpoints

    def optimizer_state(self) -> list[dict[str, Any]]:
        return [
            {
                "torch": part.optimizer.state_dict(),
                "main": [[p.data for p in g] for g in part.shard_fp32_from_float16_groups],
            }
            for part in self._optimizers()
        ]

    def load_optimizer_state(self, states: Sequence[dict[str, Any]]) -> None:
        """Inverse of `optimizer_state`, for the same layout. Load the weights first."""
        for part, state in zip(self._optimizers(), states, strict=True):
            part.optimizer.load_state_dict(state["torch"])
            for mine, saved in zip(part.shard_fp32_from_float16_groups, state["main"], strict=True):
                for parameter, value in zip(mine, saved, strict=True):
                    parameter.data.copy_(value)

    def _optimizers(self) -> list[Any]:
        if self.optimizer is None:
            raise RuntimeError("only the core holds the optimizer")
        return list(getattr(self.optimizer, "chained_optimizers", [self.optimizer]))


def _to_device(payload: Payload) -> _MicroStep:
    positions = torch.from_numpy(payload.target_mask).nonzero()[:, 0]

    def at_targets(values: Any) -> torch.Tensor:
        return torch.from_numpy(values)[positions].to(device.DEVICE)

    ids = torch.from_numpy(payload.input_ids).long()
    bounds = torch.from_numpy(payload.cu_seqlens).to(device.DEVICE)
    longest = int(bounds.diff().max())
    packing = PackedSeqParams(
        qkv_format="thd", cu_seqlens_q=bounds, cu_seqlens_kv=bounds, max_seqlen_q=longest, max_seqlen_kv=longest
    )
    return _MicroStep(
        input_ids=ids[None].to(device.DEVICE),
        packing=packing,
        rows=(positions - 1).to(device.DEVICE),
        targets=ids[positions].to(device.DEVICE),
        behaviour_logprobs=at_targets(payload.behaviour_logprobs),
        advantages=at_targets(payload.advantages),
        weights=at_targets(payload.weights),
        call_ids=at_targets(payload.call_ids),
    )


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a Hugging Face folder (one or several safetensors files). Raises FileNotFoundError."""
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no .safetensors file")
    weights: dict[str, torch.Tensor] = {}
    for file in files:
        weights.update(load_file(file))
    return weights
