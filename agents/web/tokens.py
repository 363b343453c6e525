"""The tokens on the path to one call, with what each is: context, sampled or trained.

See docs/algorithms.md §2, §3, §7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.core.codec import decode_call
from agents.core.trained import target_mask
from agents.core.tree import common_prefix
from agents.models import Call, Execution, Trajectory

WINDOW_TOKENS = 384
MAX_WINDOW_TOKENS = 2048


@dataclass(frozen=True)
class PathTokens:
    """Arrays over the n tokens from the root to the end of a call: `ids` int32, `sampled` bool, `logprobs` float32
    (0 where not sampled), `versions` int32 (-1 where not sampled), `calls` int32 (the call that added the token)."""

    ids: NDArray[np.int32]
    sampled: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]
    calls: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Token:
    """One token of a window, ready to be shown."""

    position: int
    id: int
    call: int
    sampled: bool
    trained: bool
    logprob: float | None
    version: int | None


def path_numbers(parents: dict[int, int | None], number: int) -> list[int]:
    """Call numbers from the root of the path to `number`."""
    found: list[int] = []
    at: int | None = number
    while at is not None and at in parents and len(found) <= len(parents):
        found.append(at)
        at = parents[at]
    return found[::-1]


def path_tokens(execution: Execution, parents: dict[int, int | None], number: int) -> PathTokens:
    """Loads the token columns of the calls on the path only."""
    numbers = path_numbers(parents, number)
    rows = {
        call.number: call
        for call in Call.objects.with_tokens()
        .filter(execution=execution, attempt=execution.attempt, number__in=numbers)
        .only("number", "prefix_tokens", "tokens", "versions")
    }
    return join(rows[n] for n in numbers if n in rows)


def join(calls: Iterable[Any]) -> PathTokens:
    """Each call keeps the first `prefix_tokens` of its parent's path and adds its own input and output."""
    path = PathTokens(
        ids=np.empty(0, np.int32),
        sampled=np.empty(0, np.bool_),
        logprobs=np.empty(0, np.float32),
        versions=np.empty(0, np.int32),
        calls=np.empty(0, np.int32),
    )
    for call in calls:
        delta = decode_call(bytes(call.tokens))
        num_new, num_out = len(delta.new_input_ids), len(delta.output_ids)
        versions = np.full(num_out, -1, np.int32)
        for version, start, end in call.versions:
            versions[start:end] = version
        keep = call.prefix_tokens
        path = PathTokens(
            np.concatenate([path.ids[:keep], delta.new_input_ids, delta.output_ids]),
            np.concatenate([path.sampled[:keep], np.zeros(num_new, np.bool_), np.ones(num_out, np.bool_)]),
            np.concatenate([path.logprobs[:keep], np.zeros(num_new, np.float32), delta.output_logprobs]),
            np.concatenate([path.versions[:keep], np.full(num_new, -1, np.int32), versions]),
            np.concatenate([path.calls[:keep], np.full(num_new + num_out, call.number, np.int32)]),
        )
    return path


def trained_mask(
    execution: Execution, parents: dict[int, int | None], path: PathTokens, trajectories: Sequence[Trajectory]
) -> NDArray[np.bool_]:
    """True where a token of the path is a target of a drawn trajectory: equal ids from the root on are one node."""
    mask = np.zeros(len(path), np.bool_)
    for trajectory in trajectories:
        if trajectory.leaf_call is None or not trajectory.targets:
            continue
        leaf = path_tokens(execution, parents, trajectory.leaf_call)
        shared = common_prefix(path.ids, leaf.ids)
        mask[:shared] |= target_mask(trajectory.targets, len(leaf))[:shared]
    return mask


def window(path: PathTokens, trained: NDArray[np.bool_], start: int, size: int) -> list[Token]:
    end = min(len(path), start + size)
    return [
        Token(
            position=i,
            id=int(path.ids[i]),
            call=int(path.calls[i]),
            sampled=bool(path.sampled[i]),
            trained=bool(trained[i]),
            logprob=float(path.logprobs[i]) if path.sampled[i] and np.isfinite(path.logprobs[i]) else None,
            version=int(path.versions[i]) if path.sampled[i] else None,
        )
        for i in range(max(0, start), end)
    ]
