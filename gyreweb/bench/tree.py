"""Cost of the prefix-sharing tree (docs/algorithms.md §3) on one long execution, made up but of realistic shape.

`fold` inserts whole inputs, so every input id is compared; its baseline is the time numpy takes to compare the same
bytes once. `storage` is what the nodes take in the database's encoding; its baseline is one prompt per call in the same
encoding. Times are taken in turn and compared pair by pair, and the median of the ratios counts: a machine that other
work slows down slows both.
"""

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agents.core.codec import CallDelta, Int32s, encode_call, encode_node
from agents.core.tree import Tree, common_prefix
from gyreweb.bench.figures import Figure
from gyreweb.bench.synthetic import VOCABULARY, BenchCall, execution

REPEATS = 15
NUM_CORRUPTED = 40


def run() -> Mapping[str, Figure]:
    """Figures of `manage.py bench tree`."""
    calls = list(execution())
    copies = [call.input_ids.copy() for call in calls]
    num_input = sum(len(call.input_ids) for call in calls)
    print(f"{len(calls)} calls, {num_input:,} input tokens", file=sys.stderr)
    compare, whole, deltas = interleaved(
        REPEATS, lambda: _compare(calls, copies), lambda: fold_whole(calls), lambda: fold_deltas(calls)
    )
    tree = fold_whole(calls)
    _check_paths(tree, calls)
    num_forks = _check_corruption(calls)
    print(f"{tree.num_tokens:,} unique tokens; encoding one prompt per call to compare", file=sys.stderr)
    node_bytes = sum(len(encode_node(node.tokens())) for node in tree.nodes())
    delta_bytes = sum(
        len(encode_call(CallDelta(call.input_ids[call.prefix :], call.output.ids, call.output.logprobs)))
        for call in calls
    )
    prompt_bytes = sum(
        len(encode_call(CallDelta(call.input_ids, call.output.ids, call.output.logprobs))) for call in calls
    )
    return {
        "fold": paired(whole, compare, "s"),
        "fold_deltas": paired(deltas, compare, "s"),
        "storage": Figure.against(node_bytes, prompt_bytes, "bytes"),
        "storage_times_less": Figure(prompt_bytes / node_bytes, "times"),
        "recorded_calls": Figure.against(delta_bytes, prompt_bytes, "bytes"),
        "corrupted_tokens_that_forked": Figure.against(num_forks, NUM_CORRUPTED, "forks"),
        "num_calls": Figure(len(calls), "calls"),
        "input_tokens": Figure(num_input, "tokens"),
        "unique_tokens": Figure(tree.num_tokens, "tokens"),
    }


def interleaved(repeats: int, *works: Callable[[], object]) -> list[list[float]]:
    """Seconds of each work, `repeats` times in turn after one round that does not count."""
    times: list[list[float]] = [[] for _ in works]
    for round_ in range(repeats + 1):
        for work, taken in zip(works, times, strict=True):
            seconds = _seconds(work)
            if round_:
                taken.append(seconds)
    return times


def paired(values: Sequence[float], baselines: Sequence[float], unit: str) -> Figure:
    """Medians, and the median of the ratios of what was measured in the same round."""
    ratios = [value / baseline for value, baseline in zip(values, baselines, strict=True)]
    return Figure(statistics.median(values), unit, statistics.median(baselines), statistics.median(ratios))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _compare(calls: list[BenchCall], copies: list[Int32s]) -> None:
    for call, copy in zip(calls, copies, strict=True):
        if not np.array_equal(call.input_ids, copy):
            raise AssertionError("a copy differs from its original")


def fold_whole(calls: list[BenchCall]) -> Tree:
    tree = Tree()
    for call in calls:
        tree.insert(call.number, call.input_ids, call.output, call.parent)
    return tree


def fold_deltas(calls: list[BenchCall]) -> Tree:
    tree = Tree()
    for call in calls:
        tree.insert_delta(call.number, call.parent, call.prefix, call.input_ids[call.prefix :], call.output)
    return tree


def _check_paths(tree: Tree, calls: list[BenchCall]) -> None:
    """Every call's path is its input and its output, token for token."""
    for call in calls[:: max(1, len(calls) // 50)]:
        path = tree.path_tokens(call.number).ids
        if not np.array_equal(path, np.concatenate([call.input_ids, call.output.ids])):
            raise AssertionError(f"the path of call {call.number} is not what was inserted")


def _check_corruption(calls: list[BenchCall]) -> int:
    """How many of the calls that come back with one wrong token fork exactly there."""
    rng = np.random.default_rng(7)
    num_forks = 0
    for _ in range(NUM_CORRUPTED):
        call = calls[int(rng.integers(1, len(calls)))]
        at = int(rng.integers(0, len(call.input_ids)))
        corrupted = call.input_ids.copy()
        corrupted[at] = (corrupted[at] + 1 + int(rng.integers(0, VOCABULARY - 1))) % VOCABULARY
        earlier = calls[: call.number + 1] if call.number < 20 else calls[call.number - 1 : call.number + 1]
        tree = Tree()
        for other in earlier:
            tree.insert(other.number, other.input_ids, other.output)
        before = tree.num_tokens
        tree.insert(10_000, corrupted, call.output)
        added = tree.num_tokens - before
        path = tree.path_tokens(10_000).ids
        is_kept = np.array_equal(path[: len(corrupted)], corrupted)
        shares = max(common_prefix(corrupted, other.input_ids) for other in earlier)
        num_forks += is_kept and shares == at and added == len(corrupted) - at + len(call.output.ids)
    return num_forks
