"""Trajectories into micro-steps (docs/algorithms.md §8, §11). A trajectory is never split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agents.core.codec import Bools, Float32s, Int32s
from trainers.core.payload import Payload


@dataclass(frozen=True)
class PackItem:
    """One trajectory of n tokens.

    `logprobs`, `versions` and `samplers` (number of the call that sampled the token) count where `targets` is True.
    `weight`: 1/T(e) of its execution; `advantage`: of its execution.
    """

    ids: Int32s
    targets: Bools
    logprobs: Float32s
    versions: Int32s
    samplers: Int32s
    weight: float
    advantage: float


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


def pack(items: Sequence[PackItem], tokens_per_micro_step: int) -> list[Payload]:
    """Micro-steps that hold every item once."""
    bins = assign([len(item.ids) for item in items], tokens_per_micro_step)
    return [_payload([items[item] for item in members]) for members in bins]


def _payload(items: Sequence[PackItem]) -> Payload:
    mask = np.concatenate([item.targets for item in items])
    return Payload(
        input_ids=np.concatenate([item.ids for item in items]),
        cu_seqlens=np.cumsum([0, *(len(item.ids) for item in items)], dtype=np.int32),
        target_mask=mask,
        behaviour_logprobs=np.where(mask, np.concatenate([item.logprobs for item in items]), np.float32(0)),
        weights=np.where(mask, np.concatenate([_constant(item, item.weight) for item in items]), np.float32(0)),
        advantages=np.where(mask, np.concatenate([_constant(item, item.advantage) for item in items]), np.float32(0)),
        call_ids=_sequences(items, mask),
        versions=np.where(mask, np.concatenate([item.versions for item in items]), np.int32(-1)),
    )


def _constant(item: PackItem, value: float) -> Float32s:
    return np.full(len(item.ids), value, np.float32)


def _sequences(items: Sequence[PackItem], mask: Bools) -> Int32s:
    """A number for each (trajectory, call) that has targets, -1 elsewhere."""
    owner = np.concatenate([np.full(len(item.ids), index, np.int64) for index, item in enumerate(items)])
    sampler = np.concatenate([item.samplers for item in items]).astype(np.int64)
    sequences = np.full(len(mask), -1, np.int32)
    _, sequences[mask] = np.unique((owner[mask] << 32) | sampler[mask], return_inverse=True)
    return sequences
