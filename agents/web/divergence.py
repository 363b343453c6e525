"""Where a false fork leaves what was recorded, as pages and the API list it (docs/algorithms.md §2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.models import Call


@dataclass(frozen=True)
class Divergence:
    """`of_call` recorded `expected` from `position` on; the false fork has `found` there instead.

    The proxy wrote it down with the call. A call recorded without it has no `of_call` and no ids.
    """

    call: Call
    of_call: int | None
    position: int
    expected: list[int]
    found: list[int]


def divergences(calls: Sequence[Call]) -> list[Divergence]:
    """One for each call."""
    return [_divergence(call) for call in calls]


def _divergence(call: Call) -> Divergence:
    left = call.departure
    expected, found = list(left.get("recorded_ids", ())), list(left.get("given_ids", ()))
    return Divergence(call, left.get("call"), left.get("position", 0), expected, found)
