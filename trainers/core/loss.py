"""Policy-gradient losses over the targets of one micro-step (docs/algorithms.md §8).

Every loss is a *sum* over targets of weight · ℓ_t, where the weight is 1/T(e). The division by |E| happens once, at the
optimizer step. So the gradient of a batch is the sum of the gradients of its micro-steps, however they were packed.

With A the advantage, lp the trainer's log-probability, lp_b the behaviour log-probability, sg(·) the value without gradient:

    ppo_clip            r = exp(lp - sg(lp)), w = sg(min(exp(lp - lp_b), tis_cap));  ℓ = -w · min(r·A, clip(r)·A)
    ppo_clip_behaviour  r = exp(lp - lp_b);                                          ℓ = -min(r·A, clip(r)·A)
    cispo               w = sg(min(exp(lp - lp_b), 1 + clip_high));                  ℓ = -w · A · lp   (arXiv:2506.13585)
    gspo                s = exp(mean of lp - lp_b over the targets of one call);     ℓ = -min(s·A, clip(s)·A)   (arXiv:2507.18071)
    reinforce_is        w = sg(min(exp(lp - lp_b), tis_cap));                        ℓ = -w · A · lp
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor

LossKind = Literal["ppo_clip", "ppo_clip_behaviour", "cispo", "gspo", "reinforce_is"]

#: Log-ratios beyond it are cut, so that no ratio overflows float32.
MAX_LOG_RATIO = 20.0


@dataclass(frozen=True)
class LossSettings:
    """`clip_low` and `clip_high` bound the ratio to [1 - clip_low, 1 + clip_high]; `tis_cap` the importance weight."""

    kind: LossKind
    clip_low: float = 0.2
    clip_high: float = 0.28
    tis_cap: float = 2.0


@dataclass(frozen=True)
class LossMetrics:
    """Sums over targets, so that metrics of micro-steps add up to those of the batch.

    `num_clipped`: targets whose gradient the clip or cap removed or cut. It is 0 by construction for `ppo_clip`, whose
    clip is inert with one optimizer step per batch; `num_capped` counts truncated importance weights.
    `logprob_gap_sum`, `logprob_gap_max`: |lp - lp_b|.
    """

    num_targets: int = 0
    loss_sum: float = 0.0
    num_clipped: int = 0
    num_capped: int = 0
    logprob_gap_sum: float = 0.0
    logprob_gap_max: float = 0.0

    def __add__(self, other: LossMetrics) -> LossMetrics:
        return LossMetrics(
            self.num_targets + other.num_targets,
            self.loss_sum + other.loss_sum,
            self.num_clipped + other.num_clipped,
            self.num_capped + other.num_capped,
            self.logprob_gap_sum + other.logprob_gap_sum,
            max(self.logprob_gap_max, other.logprob_gap_max),
        )

    def to_json(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(**values)

    def summary(self, kind: LossKind, num_votes: int) -> dict[str, float | bool]:
        """Figures of a batch with |E| = `num_votes`, for people."""
        share = 1.0 / max(self.num_targets, 1)
        return {
            "loss": self.loss_sum / max(num_votes, 1),
            "num_targets": self.num_targets,
            "clip_fraction": self.num_clipped * share,
            "clip_inert": kind == "ppo_clip",
            "cap_fraction": self.num_capped * share,
            "logprob_gap": self.logprob_gap_sum * share,
            "logprob_gap_max": self.logprob_gap_max,
        }


@dataclass(frozen=True)
class _Terms:
    """ℓ_t per target, and which targets were clipped or capped."""

    loss: Tensor
    clipped: Tensor | None = None
    capped: Tensor | None = None


def token_loss(
    logprobs: Tensor,
    behaviour_logprobs: Tensor,
    advantages: Tensor,
    weights: Tensor,
    call_ids: Tensor,
    settings: LossSettings,
) -> tuple[Tensor, LossMetrics]:
    """Loss sum (a scalar with gradient) and metrics over n targets; all tensors are [n], `logprobs` with gradient.

    `logprobs` are at the run's temperature, like the engine's. With n = 0 the sum is 0 and still has a gradient.
    """
    log_ratio = (logprobs - behaviour_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    terms = _LOSSES[settings.kind](logprobs, log_ratio, advantages, call_ids, settings)
    loss_sum = (weights * terms.loss).sum()
    gap = (logprobs - behaviour_logprobs).detach().abs()
    metrics = LossMetrics(
        num_targets=logprobs.numel(),
        loss_sum=float(loss_sum.detach()),
        num_clipped=0 if terms.clipped is None else int(terms.clipped.sum()),
        num_capped=0 if terms.capped is None else int(terms.capped.sum()),
        logprob_gap_sum=float(gap.sum()),
        logprob_gap_max=float(gap.max()) if gap.numel() else 0.0,
    )
    return loss_sum, metrics


def _ppo_clip(lp: Tensor, log_ratio: Tensor, advantages: Tensor, call_ids: Tensor, settings: LossSettings) -> _Terms:
    weight, capped = _capped(log_ratio, settings.tis_cap)
    surrogate, clipped = _clipped_surrogate((lp - lp.detach()).exp(), advantages, settings)
    return _Terms(-weight * surrogate, clipped, capped)


def _ppo_clip_behaviour(
    lp: Tensor, log_ratio: Tensor, advantages: Tensor, call_ids: Tensor, settings: LossSettings
) -> _Terms:
    surrogate, clipped = _clipped_surrogate(log_ratio.exp(), advantages, settings)
    return _Terms(-surrogate, clipped)


def _cispo(lp: Tensor, log_ratio: Tensor, advantages: Tensor, call_ids: Tensor, settings: LossSettings) -> _Terms:
    weight, capped = _capped(log_ratio, 1.0 + settings.clip_high)
    return _Terms(-weight * advantages * lp, capped, capped)


def _gspo(lp: Tensor, log_ratio: Tensor, advantages: Tensor, call_ids: Tensor, settings: LossSettings) -> _Terms:
    _, sequence = torch.unique(call_ids, return_inverse=True)
    num_sequences = int(sequence.max()) + 1 if sequence.numel() else 0
    sums = torch.zeros(num_sequences, dtype=lp.dtype, device=lp.device).index_add(0, sequence, log_ratio)
    lengths = torch.bincount(sequence, minlength=num_sequences).to(lp.dtype)
    surrogate, clipped = _clipped_surrogate((sums / lengths)[sequence].exp(), advantages, settings)
    return _Terms(-surrogate, clipped)


def _reinforce_is(
    lp: Tensor, log_ratio: Tensor, advantages: Tensor, call_ids: Tensor, settings: LossSettings
) -> _Terms:
    weight, capped = _capped(log_ratio, settings.tis_cap)
    return _Terms(-weight * advantages * lp, None, capped)


def _capped(log_ratio: Tensor, cap: float) -> tuple[Tensor, Tensor]:
    ratio = log_ratio.detach().exp()
    return ratio.clamp(max=cap), ratio > cap


def _clipped_surrogate(ratio: Tensor, advantages: Tensor, settings: LossSettings) -> tuple[Tensor, Tensor]:
    clipped_ratio = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    free, bounded = ratio * advantages, clipped_ratio * advantages
    return torch.minimum(free, bounded), (bounded < free).detach()


_LOSSES: dict[LossKind, Callable[[Tensor, Tensor, Tensor, Tensor, LossSettings], _Terms]] = {
    "ppo_clip": _ppo_clip,
    "ppo_clip_behaviour": _ppo_clip_behaviour,
    "cispo": _cispo,
    "gspo": _gspo,
    "reinforce_is": _reinforce_is,
}
