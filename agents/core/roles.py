"""Role classes of calls and their order (docs/algorithms.md §4). A harness's profile says which call has which role."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Role(StrEnum):
    """The classes that Gyre knows by itself; a profile may bring its own names."""

    MAIN = "main"
    MAIN_SUMMARY = "main-summary"
    SUB_AGENT = "sub-agent"
    SUB_AGENT_SUMMARY = "sub-agent-summary"
    AUXILIARY = "auxiliary"  # recorded, never selected, never extends another call


#: Highest priority first. `auxiliary` has no place in any order.
DEFAULT_ORDER: tuple[str, ...] = (Role.MAIN, Role.MAIN_SUMMARY, Role.SUB_AGENT, Role.SUB_AGENT_SUMMARY)


def ranks(order: Sequence[str]) -> dict[str, int]:
    """Rank of each class, 0 the highest. Raises ValueError for an order with repeats or with `auxiliary`."""
    if len(set(order)) != len(order):
        raise ValueError(f"the order {list(order)} names a class twice")
    if Role.AUXILIARY in order:
        raise ValueError("auxiliary calls are never selected, so they have no rank")
    return {role: rank for rank, role in enumerate(order)}
