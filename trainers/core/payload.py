"""The bytes of one micro-step: packed trajectories with everything the loss needs (docs/algorithms.md §8, §11).

A payload depends on no row of the database: a cell that holds it can do the micro-step. Values at tokens that are not
targets are not stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agents.core.codec import Bools, CorruptTokens, Float32s, Int32s, Schema, pack, spread, unpack

MICRO_STEP = Schema(16, ("i4", "i4", "?", "f4", "f4", "f4", "i4", "i4"))


@dataclass(frozen=True)
class Payload:
    """S trajectories of T tokens in all, one after the other. Arrays are of length T unless said otherwise.

    `input_ids` int32; `cu_seqlens` int32[S+1]: trajectory i is [cu_seqlens[i], cu_seqlens[i+1]);
    `target_mask`: True at t where token t is a target, predicted from t-1 of the same trajectory;
    `behaviour_logprobs` float32: what the engine reported when it sampled the token; 0 elsewhere;
    `weights` float32: 1/T(e) of the token's execution at targets, 0 elsewhere;
    `advantages` float32: of the token's execution at targets, 0 elsewhere;
    `call_ids` int32: equal for the targets that one call contributed to one trajectory, 0, 1, … within the micro-step
    (the sequences of gspo); -1 elsewhere;
    `versions` int32: weight version that sampled the target; -1 elsewhere.
    """

    input_ids: Int32s
    cu_seqlens: Int32s
    target_mask: Bools
    behaviour_logprobs: Float32s
    weights: Float32s
    advantages: Float32s
    call_ids: Int32s
    versions: Int32s

    @property
    def num_tokens(self) -> int:
        return len(self.input_ids)

    @property
    def num_targets(self) -> int:
        return int(self.target_mask.sum())

    @property
    def num_trajectories(self) -> int:
        return len(self.cu_seqlens) - 1


def check(payload: Payload) -> None:
    """Raises ValueError with the first rule of `Payload` that does not hold."""
    total, bounds, mask = len(payload.input_ids), payload.cu_seqlens, payload.target_mask
    per_token = (mask, payload.behaviour_logprobs, payload.weights, payload.advantages)
    if any(len(array) != total for array in (*per_token, payload.call_ids, payload.versions)):
        raise ValueError(f"an array does not have the {total} items of input_ids")
    if len(bounds) < 1 or bounds[0] != 0 or bounds[-1] != total or (np.diff(bounds) <= 0).any():
        raise ValueError(f"cu_seqlens must rise from 0 to {total}")
    if mask[bounds[:-1]].any():
        raise ValueError("the first token of a trajectory has no token to be predicted from")
    if not all(np.isfinite(array).all() for array in per_token[1:]):
        raise ValueError("a log-probability, weight or advantage is not finite")


def encode_payload(payload: Payload) -> bytes:
    """Raises ValueError when the payload breaks a rule of its class."""
    check(payload)
    at = payload.target_mask
    return pack(
        MICRO_STEP,
        (
            payload.input_ids,
            payload.cu_seqlens,
            at,
            payload.behaviour_logprobs[at],
            payload.weights[at],
            payload.advantages[at],
            payload.call_ids[at],
            payload.versions[at],
        ),
    )


def decode_payload(data: bytes | memoryview) -> Payload:
    """Inverse of `encode_payload`. Raises agents.core.codec.CorruptTokens."""
    input_ids, cu_seqlens, mask, *at_targets = unpack(MICRO_STEP, data)
    if len(mask) != len(input_ids) or any(len(values) != int(mask.sum()) for values in at_targets):
        raise CorruptTokens("the arrays of a micro-step differ in length")
    behaviour_logprobs, weights, advantages = (spread(mask, values, np.float32(0)) for values in at_targets[:3])
    call_ids, versions = (spread(mask, values, np.int32(-1)) for values in at_targets[3:])
    payload = Payload(input_ids, cu_seqlens, mask, behaviour_logprobs, weights, advantages, call_ids, versions)
    try:
        check(payload)
    except ValueError as error:
        raise CorruptTokens(str(error)) from error
    return payload
