"""Where a false fork leaves what was recorded: the first tokens that differ (algorithms.md §2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.models import Call
from agents.web.tokens import common_prefix, path_tokens

#: Ids shown from the place where two calls part.
SHOWN_TOKENS = 12


@dataclass(frozen=True)
class Divergence:
    """`of_call` recorded `expected` from `position` on; the false fork has `found` there instead."""

    call: Call
    of_call: int | None
    position: int
    expected: list[int]
    found: list[int]


def divergences(calls: Sequence[Call]) -> list[Divergence]:
    """For each call, against the newest earlier call of its conversation that has a reply. Reads a page's tokens."""
    return [_divergence(call) for call in calls]


def _divergence(call: Call) -> Divergence:
    rows = Call.objects.filter(execution=call.execution_id, attempt=call.attempt)
    parents = dict(rows.values_list("number", "parent_number"))
    earlier = rows.filter(conversation=call.conversation, role=call.role, number__lt=call.number, output_tokens__gt=0)
    of_call = earlier.order_by("-number").values_list("number", flat=True).first()
    if of_call is None:
        of_call = call.parent_number
    if of_call is None:
        return Divergence(call, None, 0, [], [])
    recorded = path_tokens(call.execution, parents, of_call).ids
    asked = path_tokens(call.execution, parents, call.number).ids[: call.input_tokens]
    position = common_prefix(recorded, asked)
    end = position + SHOWN_TOKENS
    return Divergence(call, of_call, position, recorded[position:end].tolist(), asked[position:end].tolist())
