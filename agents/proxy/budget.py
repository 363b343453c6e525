"""How much one request may be tokenised: a little more than the context holds, whatever its body's size.

A tokenizer takes 130 to 600 bytes of memory for a byte of text, so a text is not given to it before its length is
known to be about the context's. The count that decides is made in pieces and may differ from the true one by a few
tokens at each cut; it refuses only from twice the context on. Ids themselves are never made of pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from agents.proxy.canonical import BadRequest

#: Characters that are counted at a time.
PIECE_CHARS = 32 * 1024
#: A text of more bytes for each token of the context, and more than the least, is not tokenised at once.
BYTES_PER_TOKEN = 8
LEAST_TEXT_BYTES = 2 << 20
#: One request may be tokenised so many times over: some turns are rendered twice, and a whole prompt again.
TIMES = 8


class TooLong(Exception):
    """The request has certainly more tokens than the context; `tokens`: about how many."""

    def __init__(self, tokens: int) -> None:
        super().__init__(f"about {tokens} tokens")
        self.tokens = tokens


@dataclass(slots=True)
class _Budget:
    context_tokens: int
    spent: int = 0


_current: ContextVar[_Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget(context_tokens: int) -> Iterator[None]:
    """Inside the block, this thread tokenises one request for a policy with this context."""
    token = _current.set(_Budget(context_tokens))
    try:
        yield
    finally:
        _current.reset(token)


def check(text: str, count: Callable[[str], int]) -> None:
    """Raises TooLong, or BadRequest for a text of few tokens that is still too large to be tokenised at once."""
    known = _current.get()
    if known is None or len(text) <= known.context_tokens // 2:  # too few characters to be far over the context
        return
    largest = max(LEAST_TEXT_BYTES, BYTES_PER_TOKEN * known.context_tokens)
    counted = 0
    for at in range(0, min(len(text), largest), PIECE_CHARS):
        counted += count(text[at : at + PIECE_CHARS])
        if counted > 2 * known.context_tokens:
            raise TooLong(counted * len(text) // min(at + PIECE_CHARS, len(text)))
    num_bytes = len(text) if text.isascii() else len(text.encode(errors="replace"))
    if num_bytes > largest:
        raise BadRequest(f"a text of {num_bytes} bytes is too large to be tokenised: at most {largest} bytes are")


def spend(tokens: int) -> None:
    """Count tokens that were made. Raises TooLong when the request has had far more than its context."""
    known = _current.get()
    if known is None:
        return
    known.spent += tokens
    if known.spent > TIMES * known.context_tokens:
        raise TooLong(known.spent)
