"""The update does not depend on how a batch was packed, or on who did which micro-step (docs/algorithms.md §8)."""

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.core.codec import NodeTokens
from agents.core.trained import TrainedTrajectory
from trainers.core.loss import LossKind, LossSettings, token_loss
from trainers.core.packing import pack
from trainers.core.payload import Payload, decode_payload, encode_payload

pytestmark = pytest.mark.usefixtures("one_torch_thread")
KINDS: list[LossKind] = list(get_args(LossKind))
VOCABULARY = 7


@st.composite
def batches(draw: st.DrawFn) -> list[TrainedTrajectory]:
    """Trajectories of a few executions; those of one execution share advantage and weight."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    items = []
    for _ in range(draw(st.integers(1, 4))):
        advantage, lengths = float(rng.normal()), rng.integers(2, 16, rng.integers(1, 4))
        masks = [rng.random(n) < 0.6 for n in lengths]
        for mask in masks:
            mask[0] = False
        weight = 1 / max(sum(int(mask.sum()) for mask in masks), 1)
        items += [
            TrainedTrajectory(
                NodeTokens(
                    ids=rng.integers(0, VOCABULARY, n).astype(np.int32),
                    sampled=mask,
                    logprobs=-rng.exponential(1.5, n).astype(np.float32),
                    versions=np.zeros(n, np.int32),
                    samplers=np.sort(rng.integers(0, 3, n)).astype(np.int32),
                ),
                mask,
                weight=weight,
                advantage=advantage,
            )
            for n, mask in zip(lengths, masks, strict=True)
        ]
    return items


def gradient(payload: Payload, loss_settings: LossSettings) -> np.ndarray:
    """Of a bigram policy: the logits of a token depend on the one before it."""
    weights = torch.linspace(-1, 1, VOCABULARY**2, dtype=torch.float64).reshape(VOCABULARY, VOCABULARY)
    weights.requires_grad_()
    ids, at = torch.from_numpy(payload.input_ids).long(), np.flatnonzero(payload.target_mask)
    logprobs = torch.log_softmax(weights[ids[at - 1]], dim=-1).gather(1, ids[at].unsqueeze(1)).squeeze(1)
    behaviour, advantages, shares = (
        torch.from_numpy(array[at]).double()
        for array in (payload.behaviour_logprobs, payload.advantages, payload.weights)
    )
    loss, _ = token_loss(logprobs, behaviour, advantages, shares, torch.from_numpy(payload.call_ids[at]), loss_settings)
    loss.backward()
    assert weights.grad is not None
    return weights.grad.numpy()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(items=batches(), capacity=st.integers(16, 64), data=st.data())
def test_any_packing_in_any_order_gives_the_same_gradient_sum(
    kind: LossKind, items: list[TrainedTrajectory], capacity: int, data: st.DataObject
) -> None:
    loss = LossSettings(kind)
    whole = sum(gradient(payload, loss) for payload in pack(items, 10_000))
    shuffled = data.draw(st.permutations(items))
    parts = [decode_payload(encode_payload(payload)) for payload in pack(shuffled, capacity)]
    np.testing.assert_allclose(sum(gradient(part, loss) for part in parts), whole, rtol=1e-9, atol=1e-12)
