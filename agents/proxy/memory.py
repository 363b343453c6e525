"""Memory that large requests took goes back to the system: the C library would keep it."""

from __future__ import annotations

import contextlib
import ctypes

_M_ARENA_MAX = -8
_MAX_ARENAS = 2


def few_arenas() -> None:
    """Let all threads share two heaps: each heap keeps what its busiest moment took. Call before threads start."""
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc has no such call
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _MAX_ARENAS)


def give_back() -> None:
    """Return free memory to the system. Takes milliseconds: work for a thread."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
