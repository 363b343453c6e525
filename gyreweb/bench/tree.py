"""Cost of the prefix-sharing tree (algorithms.md §3) on one long execution, made up but of realistic shape.

Baselines: the time numpy takes to compare the bytes of all inputs once, and the bytes that one prompt per call takes in
the same encoding.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from agents.core.codec import CallDelta, Float32s, Int32s, encode_call, encode_node
from agents.core.draws import selection_seed
from agents.core.roles import DEFAULT_ORDER, Role
from agents.core.selection import Bounds, CallFacts, select
from agents.core.tree import Output, Tree
from gyreweb.bench.figures import Figure

NUM_CALLS = 300
OUTPUT_TOKENS = 400
NEW_INPUT_TOKENS = 1_860
CALLS_PER_CONVERSATION = 66
VOCABULARY = 150_000
REPEATS = 5


@dataclass(frozen=True)
class BenchCall:
    """A call by its whole input, and by what it adds to its parent."""

    number: int
    parent: int | None
    prefix: int
    input_ids: Int32s
    output: Output


def execution(seed: int = 1) -> Iterator[BenchCall]:
    """Conversations of up to 66 calls one after the other, as compactions leave them. Ids follow Zipf's law."""
    rng = np.random.default_rng(seed)

    def words(count: int) -> Int32s:
        return (rng.zipf(1.2, count) % VOCABULARY).astype(np.int32)

    def logprobs(count: int) -> Float32s:
        return -rng.exponential(0.4, count).astype(np.float32)

    head, history = words(2_000), np.empty(0, np.int32)
    for number in range(NUM_CALLS):
        opens = number % CALLS_PER_CONVERSATION == 0
        base = head if opens else history
        input_ids = np.concatenate([base, words(NEW_INPUT_TOKENS)])
        output = Output(
            words(OUTPUT_TOKENS),
            logprobs(OUTPUT_TOKENS),
            np.full(OUTPUT_TOKENS, number // 100, np.int32),
        )
        yield BenchCall(number, None if opens else number - 1, 0 if opens else len(base), input_ids, output)
        history = np.concatenate([input_ids, output.ids])


def run() -> Mapping[str, Figure]:
    """Figures of `manage.py bench tree`."""
    calls = list(execution())
    copies = [call.input_ids.copy() for call in calls]
    num_input = sum(len(call.input_ids) for call in calls)
    print(f"{NUM_CALLS} calls, {num_input:,} input tokens", file=sys.stderr)
    compare_s, whole_s, delta_s = [], [], []
    for _ in range(REPEATS):
        compare_s.append(_seconds(lambda: _compare(calls, copies)))
        whole_s.append(_seconds(lambda: _fold_whole(calls)))
        delta_s.append(_seconds(lambda: _fold_deltas(calls)))
    tree = _fold_deltas(calls)
    print(f"{tree.num_tokens:,} unique tokens; encoding one prompt per call to compare", file=sys.stderr)
    node_bytes = sum(len(encode_node(node.tokens())) for node in tree.nodes())
    prompt_bytes = sum(
        len(encode_call(CallDelta(call.input_ids, call.output.ids, call.output.logprobs))) for call in calls
    )
    facts = {call.number: CallFacts(Role.MAIN) for call in calls}
    bounds = Bounds(j_max=5, context_tokens=262_144, order=DEFAULT_ORDER)
    select_s = _seconds(lambda: select(tree, facts, bounds, selection_seed(1, 0, 0, 1)))
    baseline = min(compare_s)
    return {
        "fold_whole_inputs": Figure.against(min(whole_s), baseline, "s"),
        "fold_deltas": Figure.against(min(delta_s), baseline, "s"),
        "node_bytes": Figure.against(node_bytes, prompt_bytes, "bytes"),
        "select": Figure(select_s, "s"),
        "num_calls": Figure(NUM_CALLS, "calls"),
        "input_tokens": Figure(num_input, "tokens"),
        "unique_tokens": Figure(tree.num_tokens, "tokens"),
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _compare(calls: list[BenchCall], copies: list[Int32s]) -> None:
    for call, copy in zip(calls, copies, strict=True):
        if not np.array_equal(call.input_ids, copy):
            raise AssertionError("a copy differs from its original")


def _fold_whole(calls: list[BenchCall]) -> Tree:
    tree = Tree()
    for call in calls:
        tree.insert(call.number, call.input_ids, call.output, call.parent)
    return tree


def _fold_deltas(calls: list[BenchCall]) -> Tree:
    tree = Tree()
    for call in calls:
        tree.insert_delta(call.number, call.parent, call.prefix, call.input_ids[call.prefix :], call.output)
    return tree
