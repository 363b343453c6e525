"""Random numbers that anybody can compute again: SHA-256 of a seed and an index (docs/algorithms.md §7)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

#: Random numbers are multiples of 2^-53, so a float holds one exactly.
_BITS = 53


def selection_seed(run_seed: int, group: int, index: int, attempt: int) -> str:
    """Seed of one attempt's draws; `group` and `index` name the execution within its run."""
    return f"select/{run_seed}/{group}/{index}/{attempt}"


def uniform(seed: str, index: int) -> float:
    """The `index`-th random number of `seed`, in [0, 1)."""
    digest = hashlib.sha256(f"{seed}#{index}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / (1 << _BITS)


def choose(random: float, counts: Sequence[int]) -> int:
    """Position drawn with probability proportional to its count; exact in integers. `random` comes from `uniform`."""
    total = sum(counts)
    if total <= 0 or min(counts) < 0:
        raise ValueError(f"cannot draw from counts {list(counts)}")
    left = (int(random * (1 << _BITS)) * total) >> _BITS
    for position, count in enumerate(counts):
        if left < count:
            return position
        left -= count
    raise AssertionError("a random number below 1 always lands within the counts")


def permutation(seed: str, length: int) -> list[int]:
    """A uniform permutation of 0 … length-1 (Fisher-Yates)."""
    order = list(range(length))
    for last in range(length - 1, 0, -1):
        other = int(uniform(seed, last) * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order
