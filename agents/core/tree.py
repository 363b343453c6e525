"""The prefix-sharing tree of one execution (docs/algorithms.md §3).

Tokens that calls share stand once. A node holds only the tokens it adds, with what is known about each; its path from
the root spells a prefix of some call. Every call's path ends at the end of a node, so a path is a list of whole nodes.

Cost of an insert: the tokens it adds, plus one comparison at memory speed of what it shares. The comparison runs over
one contiguous earlier call (the parent if the caller names it, else the one inserted last) and only then walks nodes.
A caller that knows how many ids are shared (`insert_delta`) pays nothing for them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from agents.core.codec import Bools, Float32s, Int32s, NodeTokens, empty_node

#: Ids compared at a time: the result stays in cache, and a difference ends the comparison early.
_BLOCK = 65_536
#: Calls whose whole input is kept for comparison. Parallel sub-agents take turns, so one is not enough.
_KEPT_INPUTS = 8


@dataclass(eq=False)
class Node:
    """Tokens [depth, depth + len) of every path through it. Arrays are as in agents.core.codec.NodeTokens.

    `call`: number of the call that added it.
    """

    parent: Node | None
    depth: int
    ids: Int32s
    sampled: Bools
    logprobs: Float32s
    versions: Int32s
    samplers: Int32s
    call: int
    children: dict[int, Node] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.depth + len(self.ids)

    @property
    def num_sampled(self) -> int:
        return int(np.count_nonzero(self.sampled))

    def tokens(self) -> NodeTokens:
        return NodeTokens(self.ids, self.sampled, self.logprobs, self.versions, self.samplers)

    def path(self) -> list[Node]:
        """From the top to this node; the empty root is left out."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        nodes.reverse()
        return nodes


@dataclass(frozen=True)
class CallEnd:
    """Where a call's path ends: its input has `num_input` ids and the whole path `length`."""

    number: int
    num_input: int
    length: int


@dataclass(frozen=True)
class Output:
    """The ids a call added to its input. `trained` False: they stay context (a quarantined call)."""

    ids: Int32s
    logprobs: Float32s
    versions: Int32s
    trained: bool = True


class Tree:
    """Grows by whole calls; `ends` has every call inserted, in order."""

    def __init__(self) -> None:
        none = empty_node()
        self.root = Node(None, 0, none.ids, none.sampled, none.logprobs, none.versions, none.samplers, -1)
        self.ends: dict[int, CallEnd] = {}
        self._last_nodes: dict[int, Node] = {}
        self._inputs: OrderedDict[int, Int32s] = OrderedDict()

    # -- growing ------------------------------------------------------------------------------------------------

    def insert(self, number: int, input_ids: Int32s, output: Output, parent: int | None = None) -> None:
        """Add call `number` with its whole input. `parent`: an earlier call likely to share the longest prefix.

        The array is kept for a while to compare later calls with it: it must not change.
        Raises ValueError when the number is taken, the parent is unknown, or there is output without input.
        """
        hint = parent if parent in self._inputs else next(reversed(self._inputs), None)
        shared = 0
        if hint is not None:
            shared = common_prefix(self._inputs[hint], input_ids)
        self._insert(number, hint, shared, input_ids[shared:], output)
        self._inputs[number] = input_ids
        if len(self._inputs) > _KEPT_INPUTS:
            self._inputs.popitem(last=False)

    def insert_delta(self, number: int, parent: int | None, prefix: int, new_ids: Int32s, output: Output) -> None:
        """Add call `number` whose input is the first `prefix` ids of call `parent`'s path, then `new_ids`.

        Raises ValueError as `insert`, or when the parent's path is shorter than `prefix`.
        """
        if parent is None and prefix:
            raise ValueError(f"call {number} shares {prefix} ids with no parent")
        if parent is not None and parent not in self.ends:
            raise ValueError(f"call {number} extends call {parent}, which is not in the tree")
        if parent is not None and prefix > self.ends[parent].length:
            raise ValueError(f"call {number} shares {prefix} ids with a path of {self.ends[parent].length}")
        self._insert(number, parent, prefix, new_ids, output)

    def _insert(self, number: int, base: int | None, shared: int, new_ids: Int32s, output: Output) -> None:
        if number in self.ends:
            raise ValueError(f"call {number} is already in the tree")
        if not len(output.ids) == len(output.logprobs) == len(output.versions):
            raise ValueError(f"the output arrays of call {number} differ in length")
        num_input = shared + len(new_ids)
        if len(output.ids) and not num_input:
            raise ValueError(f"call {number} has output but no input")
        node, offset = (self.root, 0) if base is None else self._locate(base, shared)
        self._last_nodes[number] = self._walk(node, offset, new_ids, output, number)
        self.ends[number] = CallEnd(number, num_input, num_input + len(output.ids))

    def _locate(self, call: int, depth: int) -> tuple[Node, int]:
        """The node on the path of `call` that holds the token before `depth`, and how many of its tokens lie above."""
        node = self._last_nodes[call]
        while node.parent is not None and node.depth >= depth:
            node = node.parent
        return node, depth - node.depth

    def _walk(self, node: Node, offset: int, new_ids: Int32s, output: Output, call: int) -> Node:
        """Follow new input and output down from token `offset` of `node`; add what is missing; return the last node."""
        ids = np.concatenate([new_ids, output.ids])
        first_output = len(new_ids)
        position = 0
        while True:
            same = common_prefix(node.ids[offset:], ids[position:])
            if output.trained and position + same > first_output:
                _mark_sampled(node, offset - position, position, position + same, first_output, output, call)
            position, offset = position + same, offset + same
            if offset < len(node.ids):
                node = self._split(node, offset)
            if position == len(ids):
                return node
            child = node.children.get(int(ids[position]))
            if child is None:
                return self._add(node, ids, position, first_output, output, call)
            node, offset = child, 0

    def _add(self, parent: Node, ids: Int32s, position: int, first_output: int, output: Output, call: int) -> Node:
        """A new leaf under `parent` with ids[position:], of which those from `first_output` on are output."""
        n = len(ids) - position
        sampled, logprobs = np.zeros(n, np.bool_), np.zeros(n, np.float32)
        versions, samplers = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
        start = max(first_output - position, 0)
        if output.trained and start < n:
            rest = slice(position + start - first_output, None)
            sampled[start:] = True
            logprobs[start:] = output.logprobs[rest]
            versions[start:] = output.versions[rest]
            samplers[start:] = call
        own = ids[position:].copy() if position else ids  # a view would keep the shared part alive
        node = Node(parent, parent.end, own, sampled, logprobs, versions, samplers, call)
        parent.children[int(ids[position])] = node
        return node

    def _split(self, node: Node, at: int) -> Node:
        """Cut `node` after `at` tokens; the object keeps the lower part. Returns the new upper part."""
        assert node.parent is not None
        assert 0 < at < len(node.ids)
        upper = Node(
            node.parent,
            node.depth,
            node.ids[:at],
            node.sampled[:at],
            node.logprobs[:at],
            node.versions[:at],
            node.samplers[:at],
            node.call,
        )
        node.parent.children[int(node.ids[0])] = upper
        upper.children[int(node.ids[at])] = node
        node.parent, node.depth = upper, node.depth + at
        node.ids, node.sampled = node.ids[at:], node.sampled[at:]
        node.logprobs, node.versions, node.samplers = node.logprobs[at:], node.versions[at:], node.samplers[at:]
        return upper

    # -- reading ------------------------------------------------------------------------------------------------

    def last_node(self, call: int) -> Node:
        """The node at whose end the path of `call` ends; the root for a call without tokens."""
        return self._last_nodes[call]

    def path_tokens(self, call: int) -> NodeTokens:
        """All tokens on the path of `call`, from position 0."""
        nodes = [node.tokens() for node in self.last_node(call).path()] or [empty_node()]
        return NodeTokens(
            np.concatenate([node.ids for node in nodes]),
            np.concatenate([node.sampled for node in nodes]),
            np.concatenate([node.logprobs for node in nodes]),
            np.concatenate([node.versions for node in nodes]),
            np.concatenate([node.samplers for node in nodes]),
        )

    def nodes(self) -> Iterator[Node]:
        """Every node but the root, parents before children, older branches first."""
        left = list(reversed(self.root.children.values()))
        while left:
            node = left.pop()
            yield node
            left.extend(reversed(node.children.values()))

    @property
    def num_tokens(self) -> int:
        """Unique tokens."""
        return sum(len(node.ids) for node in self.nodes())


def common_prefix(a: Int32s, b: Int32s) -> int:
    """Number of leading ids that agree."""
    length = min(len(a), len(b))
    for start in range(0, length, _BLOCK):
        differs = a[start : min(start + _BLOCK, length)] != b[start : min(start + _BLOCK, length)]
        first = int(differs.argmax())
        if differs[first]:
            return start + first
    return length


def _mark_sampled(node: Node, shift: int, start: int, end: int, first_output: int, output: Output, call: int) -> None:
    """The output tokens among positions [start, end) of what `call` adds become sampled in `node`, where position p is
    token p + shift. Tokens that were sampled keep their log-probabilities."""
    start = max(start, first_output)
    fresh = np.flatnonzero(~node.sampled[start + shift : end + shift])
    there, here = fresh + (start + shift), fresh + (start - first_output)
    node.logprobs[there] = output.logprobs[here]
    node.versions[there] = output.versions[here]
    node.samplers[there] = call
    node.sampled[there] = True
