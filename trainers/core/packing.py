"""Trajectories into micro-steps (docs/algorithms.md §8, §11). A trajectory is never split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.core.codec import Bools, Float32s, Int32s
from agents.core.trained import TrainedTrajectory
from trainers.core.payload import Payload


def assign(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Bins of item positions, each of at most `capacity` tokens: first fit, longest first.

    It needs at most 11/9 of the fewest possible bins, plus one. Raises ValueError for an item over the capacity.
    """
    bins: list[list[int]] = []
    room: list[int] = []
    for item in sorted(range(len(lengths)), key=lambda item: (-lengths[item], item)):
        if lengths[item] > capacity:
            raise ValueError(f"a trajectory of {lengths[item]} tokens is over the {capacity} of a micro-step")
        place = next((place for place, left in enumerate(room) if left >= lengths[item]), None)
        if place is None:
            place = len(bins)
            bins.append([])
            room.append(capacity)
        bins[place].append(item)
        room[place] -= lengths[item]
    return [sorted(items) for items in bins]


def pack(items: Sequence[TrainedTrajectory], tokens_per_micro_step: int) -> list[Payload]:
    """Micro-steps that hold every trajectory once."""
    bins = assign([len(item.tokens.ids) for item in items], tokens_per_micro_step)
    return [_payload([items[item] for item in members]) for members in bins]


def _payload(items: Sequence[TrainedTrajectory]) -> Payload:
    mask = np.concatenate([item.targets for item in items])
    return Payload(
        input_ids=np.concatenate([item.tokens.ids for item in items]),
        cu_seqlens=np.cumsum([0, *(len(item.tokens.ids) for item in items)], dtype=np.int32),
        target_mask=mask,
        behaviour_logprobs=np.where(mask, np.concatenate([item.tokens.logprobs for item in items]), np.float32(0)),
        weights=np.where(mask, np.concatenate([_constant(item, item.weight) for item in items]), np.float32(0)),
        advantages=np.where(mask, np.concatenate([_constant(item, item.advantage) for item in items]), np.float32(0)),
        call_ids=_sequences(items, mask),
        versions=np.where(mask, np.concatenate([item.tokens.versions for item in items]), np.int32(-1)),
    )


def _constant(item: TrainedTrajectory, value: float) -> Float32s:
    return np.full(len(item.tokens.ids), value, np.float32)


def _sequences(items: Sequence[TrainedTrajectory], mask: Bools) -> Int32s:
    """A number for each (trajectory, call) that has targets, -1 elsewhere."""
    owner = np.concatenate([np.full(len(item.tokens.ids), index, np.int64) for index, item in enumerate(items)])
    sampler = np.concatenate([item.tokens.samplers for item in items]).astype(np.int64)
    sequences = np.full(len(mask), -1, np.int32)
    _, sequences[mask] = np.unique((owner[mask] << 32) | sampler[mask], return_inverse=True)
    return sequences
