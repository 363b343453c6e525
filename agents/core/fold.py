"""From recorded calls to the tree of an execution (docs/algorithms.md §2, §3).

A record that cannot be trusted never stops the others: its ids become context, or, if they cannot be read, the call and
those that extend it are left out, each with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from agents.core.codec import CorruptTokens, Int32s, decode_call
from agents.core.selection import CallFacts
from agents.core.tree import Output, Tree


@dataclass(frozen=True)
class EncodedCall:
    """A call as the proxy wrote it. `versions`: [[version, start, end], …] over the output ids."""

    number: int
    parent: int | None
    prefix_tokens: int
    tokens: bytes | memoryview
    versions: Sequence[Sequence[int]]
    role: str
    acknowledged: bool
    quarantined: bool


@dataclass(frozen=True)
class Folded:
    """`facts` has exactly the calls of the tree; `unusable` the others, with the reason."""

    tree: Tree
    facts: dict[int, CallFacts]
    unusable: dict[int, str]


def fold(calls: Iterable[EncodedCall]) -> Folded:
    """Fold one attempt's calls, in order of their numbers."""
    tree, facts, unusable = Tree(), dict[int, CallFacts](), dict[int, str]()
    for call in sorted(calls, key=lambda call: call.number):
        try:
            delta = decode_call(call.tokens)
            versions = spread_versions(call.versions, len(delta.output_ids))
            finite = bool(np.isfinite(delta.output_logprobs).all())
            trained = not call.quarantined and finite and versions is not None
            if versions is None:
                versions = np.full(len(delta.output_ids), -1, np.int32)
            output = Output(delta.output_ids, delta.output_logprobs, versions, trained)
            tree.insert_delta(call.number, call.parent, call.prefix_tokens, delta.new_input_ids, output)
        except (CorruptTokens, ValueError) as error:
            unusable[call.number] = str(error)
        else:
            facts[call.number] = CallFacts(call.role, call.acknowledged, not trained)
    return Folded(tree, facts, unusable)


def spread_versions(spans: Sequence[Sequence[int]], length: int) -> Int32s | None:
    """Weight version of each output token; None unless the spans cover [0, length) without gap or overlap."""
    versions, covered = np.empty(length, np.int32), 0
    for span in spans:
        if len(span) != 3:
            return None
        version, start, end = span
        if start != covered or not start <= end <= length or version < 0:
            return None
        versions[start:end] = version
        covered = end
    return versions if covered == length else None
