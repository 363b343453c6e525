"""Micro-steps of random tokens, for tests that need a gradient and no meaning."""

import numpy as np

from trainers.core.payload import Payload


def random_payload(seed: int, num_trajectories: int = 3, version: int = 0) -> Payload:
    """A micro-step like a real one, of random tokens."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(20, 120, num_trajectories)
    bounds = np.cumsum([0, *lengths]).astype(np.int32)
    mask = draw.random(bounds[-1]) < 0.3
    mask[bounds[:-1]] = False
    trajectory = np.repeat(np.arange(num_trajectories), lengths)
    advantages = draw.normal(size=num_trajectories)[trajectory]
    return Payload(
        input_ids=draw.integers(3, 1400, bounds[-1]).astype(np.int32),
        cu_seqlens=bounds,
        target_mask=mask,
        behaviour_logprobs=np.where(mask, -7.2, 0).astype(np.float32),
        weights=np.where(mask, 1.0 / max(mask.sum(), 1), 0).astype(np.float32),
        advantages=np.where(mask, advantages, 0).astype(np.float32),
        call_ids=np.where(mask, trajectory, -1).astype(np.int32),
        versions=np.where(mask, version, -1).astype(np.int32),
    )
