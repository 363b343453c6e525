"""Random executions for property tests, and a token-by-token model of their tree."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from agents.core.tree import Output, Tree


@dataclass(frozen=True)
class MadeCall:
    number: int
    input_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    version: int
    trained: bool
    parent: int | None
    prefix: int

    @property
    def path(self) -> tuple[int, ...]:
        return self.input_ids + self.output_ids

    def logprob(self, position: int) -> float:
        """Different for every call and token, exact in float32."""
        return -(self.number + 1) - position / 64

    def output(self) -> Output:
        n = len(self.output_ids)
        return Output(
            np.array(self.output_ids, np.int32),
            np.array([self.logprob(i) for i in range(n)], np.float32),
            np.full(n, self.version, np.int32),
            self.trained,
        )


@st.composite
def executions(draw: st.DrawFn, max_calls: int = 8, quarantine: bool = True) -> list[MadeCall]:
    """Calls over a tiny vocabulary, so that they share, fork and re-sample each other's tokens."""
    token = st.integers(0, 2)
    calls: list[MadeCall] = []
    for number in range(draw(st.integers(0, max_calls))):
        parent = draw(st.sampled_from([None, *range(number)]))
        base = () if parent is None else calls[parent].path
        prefix = draw(st.one_of(st.just(len(base)), st.integers(0, len(base))))
        input_ids = base[:prefix] + tuple(draw(st.lists(token, max_size=4)))
        output_ids = tuple(draw(st.lists(token, max_size=4))) if input_ids else ()
        trained = draw(st.sampled_from([True, True, True, False])) if quarantine else True
        calls.append(MadeCall(number, input_ids, output_ids, draw(st.integers(0, 2)), trained, parent, prefix))
    return calls


def fold(calls: list[MadeCall]) -> Tree:
    """By whole inputs."""
    tree = Tree()
    for call in calls:
        tree.insert(call.number, np.array(call.input_ids, np.int32), call.output(), call.parent)
    return tree


def fold_deltas(calls: list[MadeCall]) -> Tree:
    """By what each call adds to its parent."""
    tree = Tree()
    for call in calls:
        new = np.array(call.input_ids[call.prefix :], np.int32)
        tree.insert_delta(call.number, call.parent, call.prefix, new, call.output())
    return tree


@dataclass
class Token:
    sampled: bool = False
    logprob: float = 0.0
    version: int = -1
    sampler: int = -1


def trie(calls: list[MadeCall]) -> dict[tuple[int, ...], Token]:
    """Every distinct prefix of every path, with what is known about its last token."""
    tokens: dict[tuple[int, ...], Token] = {}
    for call in calls:
        for end in range(1, len(call.path) + 1):
            token = tokens.setdefault(call.path[:end], Token())
            position = end - 1 - len(call.input_ids)
            if position >= 0 and call.trained and not token.sampled:
                tokens[call.path[:end]] = Token(True, call.logprob(position), call.version, call.number)
    return tokens
