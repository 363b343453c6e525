"""Supervised warm start of the tiny policy on demonstrations that are generated on the fly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as functional

from agents.proxy.rendering import Rendered, Rendering
from agents.tasksets.quickstart import demonstration_tasks
from trainers.policy.demonstrations import demonstrate
from trainers.policy.model import build_model

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM

KIND_WEIGHTS = {
    "write1": 1,
    "write2": 2,
    "write3": 2,
    "read": 2,
    "copy": 1,
    "append": 1,
    "delegate": 1,
    "compaction": 1,
}
PADDING = "<|endoftext|>"
BATCHES_SORTED_TOGETHER = 8


@dataclass(frozen=True)
class WarmStart:
    """Settings of the warm start. `stop_probability`: how hasty the demonstrated agent is."""

    seed: int = 0
    steps: int = 1500
    dialogues_per_step: int = 16
    learning_rate: float = 4e-3
    warmup_steps: int = 20
    grad_clip: float = 1.0
    stop_probability: float = 0.6


def warm_start(rendering: Rendering, settings: WarmStart, progress: Callable[[int, float], None]) -> Qwen3ForCausalLM:
    """Train a policy from nothing; `progress` gets the number of steps done and the loss of the last one.

    `rendering` is the proxy's, so that a demonstration has the token ids of the same conversation at run time.
    """
    padding = rendering.token_id(PADDING)
    vocabulary = rendering.tokenizer.backend.get_vocab_size(with_added_tokens=True)
    model = build_model(vocabulary, rendering.close_id, padding, settings.seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98))
    model.train()
    for step, batch in enumerate(islice(_batches(rendering, settings), settings.steps)):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * _schedule(step, settings)
        loss = _loss(model, batch, padding)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip)
        optimizer.step()
        progress(step + 1, loss.item())
    return model.eval()


def _schedule(step: int, settings: WarmStart) -> float:
    """Linear warm-up, then a cosine that ends at a twentieth."""
    cosine = 0.5 * (1 + math.cos(math.pi * step / settings.steps))
    return min(1.0, (step + 1) / settings.warmup_steps) * max(0.05, cosine)


def _batches(rendering: Rendering, settings: WarmStart) -> Iterator[list[Rendered]]:
    """Endless batches of dialogues of about equal length, to spare padding."""
    rng = Random(f"demonstrations {settings.seed}")
    examples = (
        rendering.conversation(dialogue.messages, dialogue.tools)
        for task in demonstration_tasks(rng, KIND_WEIGHTS)
        for dialogue in demonstrate(task, rng, settings.stop_probability)
    )
    size = settings.dialogues_per_step
    while True:
        drawn = sorted(islice(examples, size * BATCHES_SORTED_TOGETHER), key=lambda example: len(example.ids))
        batches = [drawn[start : start + size] for start in range(0, len(drawn), size)]
        rng.shuffle(batches)
        yield from batches


def _loss(model: Qwen3ForCausalLM, batch: list[Rendered], padding: int) -> torch.Tensor:
    """Mean cross-entropy of the sampled tokens."""
    length = max(len(example.ids) for example in batch)
    ids = torch.tensor([example.ids + [padding] * (length - len(example.ids)) for example in batch])
    sampled = torch.tensor([example.sampled + [False] * (length - len(example.ids)) for example in batch])
    targets = sampled[:, 1:]
    hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state[targets]
    return functional.cross_entropy(model.lm_head(hidden), ids[:, 1:][targets])
