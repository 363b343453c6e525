"""Run settings that trainers and cells read."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from agents.config import PolicySettings


class TrainingSettings(PolicySettings):
    """Cells and their engines, micro-steps, loss, optimizer and checkpoints."""

    launcher: Literal["local"] = Field("local", description="Backend that starts cell agents.")
    tokens_per_micro_step: int = Field(
        262_144, ge=16, description="Most tokens packed into one micro-step; at least context_tokens."
    )
    packing: Literal["per_trajectory"] = Field(
        "per_trajectory", description="How micro-steps are filled: whole trajectories side by side."
    )
    kv_on_update: Literal["recompute"] = Field(
        "recompute", description="Cached keys and values when weights change: they are recomputed."
    )
    loss: Literal["ppo_clip", "ppo_clip_behaviour", "cispo", "gspo", "reinforce_is"] = Field(
        "ppo_clip",
        description="Policy-gradient loss. ppo_clip takes its ratio to the trainer's log-probabilities and weighs by "
        "importance; ppo_clip_behaviour takes it to the sampler's; gspo has one ratio per call.",
    )
    clip_low: float = Field(
        0.2, gt=0, lt=1, description="Ratios below 1 - clip_low are clipped; cispo and reinforce_is do not use it."
    )
    clip_high: float = Field(
        0.28,
        gt=0,
        description="Ratios above 1 + clip_high are clipped, weights in cispo; reinforce_is does not use it.",
    )
    tis_cap: float = Field(2.0, gt=0, description="Cap of the importance weight of ppo_clip and reinforce_is.")
    learning_rate: float = Field(1e-6, gt=0, description="Of Adam, constant over the run; no weight decay.")
    betas: tuple[float, float] = Field(
        (0.9, 0.95),
        description="Adam's decay rates of the gradient's mean and of its square, each at least 0, below 1.",
    )
    grad_clip: float = Field(
        1.0, gt=0, description="Largest norm of a step's gradient; a larger one is scaled down to it."
    )
    checkpoint_every_steps: Literal[1] = Field(1, description="Every optimizer step leaves a checkpoint.")
    checkpoints_kept: int = Field(3, ge=1, description="Newest checkpoints that stay on disk.")

    @model_validator(mode="after")
    def _micro_step_holds_a_trajectory(self) -> Self:
        if self.context_tokens > self.tokens_per_micro_step:
            raise ValueError(
                f"context_tokens {self.context_tokens} exceeds tokens_per_micro_step {self.tokens_per_micro_step}: "
                "a trajectory is never split"
            )
        return self
