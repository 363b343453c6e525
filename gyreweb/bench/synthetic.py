"""One long execution, made up from a seed but of realistic shape: what `bench tree` and `bench select` work on.

300 calls that read 22.4 million tokens, of which 0.68 million are unique: conversations of up to 67 calls one after the
other, as compactions leave them, each call adding 2,010 tokens of tool results and prompts and 250 sampled ones. Ids
follow Zipf's law over a vocabulary of 151,936 (11.8 bits per id); log-probabilities are exponential.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agents.core.codec import Float32s, Int32s
from agents.core.roles import Role
from agents.core.selection import CallFacts
from agents.core.tree import Output

NUM_CALLS = 300
HEAD_TOKENS = 2_300
NEW_INPUT_TOKENS = 2_010
OUTPUT_TOKENS = 250
CALLS_PER_CONVERSATION = 67
VOCABULARY = 151_936


@dataclass(frozen=True)
class BenchCall:
    """A call by its whole input, and by what it adds to its parent."""

    number: int
    parent: int | None
    prefix: int
    input_ids: Int32s
    output: Output


class Source:
    """Ids and log-probabilities from a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        weights = 1.0 / np.arange(1, VOCABULARY + 1)
        self._cumulated = np.cumsum(weights) / weights.sum()

    def words(self, count: int) -> Int32s:
        found: Int32s = np.searchsorted(self._cumulated, self._rng.random(count)).astype(np.int32)
        return found

    def logprobs(self, count: int) -> Float32s:
        return -self._rng.exponential(0.4, count).astype(np.float32)

    def output(self, version: int, count: int = OUTPUT_TOKENS) -> Output:
        return Output(self.words(count), self.logprobs(count), np.full(count, version, np.int32))


def execution(seed: int = 1, num_calls: int = NUM_CALLS) -> Iterator[BenchCall]:
    source = Source(seed)
    head, history = source.words(HEAD_TOKENS), np.empty(0, np.int32)
    for number in range(num_calls):
        opens = number % CALLS_PER_CONVERSATION == 0
        base = head if opens else history
        input_ids = np.concatenate([base, source.words(NEW_INPUT_TOKENS)])
        output = source.output(version=number // 100)
        yield BenchCall(number, None if opens else number - 1, 0 if opens else len(base), input_ids, output)
        history = np.concatenate([input_ids, output.ids])


def facts(number: int) -> CallFacts:
    """Every other conversation is a sub-agent's; each ends in the summary that the next one starts from."""
    conversation, at = divmod(number, CALLS_PER_CONVERSATION)
    is_last = at == CALLS_PER_CONVERSATION - 1
    if conversation % 2:
        return CallFacts(Role.SUB_AGENT_SUMMARY if is_last else Role.SUB_AGENT)
    return CallFacts(Role.MAIN_SUMMARY if is_last else Role.MAIN)
