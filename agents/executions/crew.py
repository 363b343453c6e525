"""Threads of one worker process that do leased work. A wake takes as much at once as there are free threads.

Celery only rings: its messages cost more than an execution's own statements. Whoever ends work looks for more only
when the last look may have left some.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from django.db import close_old_connections

Work = TypeVar("Work")
log = logging.getLogger(__name__)

#: Most that one look takes; several workers then share what is queued.
AT_ONCE = 16


class Crew(Generic[Work]):
    """`take(limit)` leases work, `do` does one piece of it; both are called in threads of the crew."""

    def __init__(
        self, name: str, size: int, take: Callable[[int], Sequence[Work]], do: Callable[[Work], object]
    ) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._take, self._do = take, do
        self._lock = threading.Lock()
        self._free = size
        self._is_looking = self._is_rung = self._may_be_more = False
        self._ended = threading.Event()

    def wake(self) -> None:
        """There may be work. Returns when it was taken; one thread looks for all that wake meanwhile."""
        with self._lock:
            self._is_rung = True
            if self._is_looking:
                return
            self._is_looking = True
        try:
            while limit := self._next_look():
                self._hand_out(self._take(limit), limit)
        except BaseException:
            with self._lock:
                self._is_looking = False
            raise
        finally:
            close_old_connections()

    def end(self) -> None:
        """Take nothing more."""
        self._ended.set()

    def _next_look(self) -> int:
        """How much to take now; 0, and the look is over, when nobody has rung since the last or no thread is free."""
        with self._lock:
            limit = min(self._free, AT_ONCE)
            if not self._is_rung or self._ended.is_set() or not limit:
                # Whoever becomes free looks, if somebody has rung.
                self._may_be_more |= self._is_rung
                self._is_looking = False
                limit = 0
            self._is_rung = False
            return limit

    def _hand_out(self, work: Sequence[Work], limit: int) -> None:
        with self._lock:
            self._free -= len(work)
            self._may_be_more = len(work) == limit
            self._is_rung |= self._may_be_more
        for piece in work:
            self._pool.submit(self._work, piece)

    def _work(self, piece: Work) -> None:
        try:
            self._do(piece)
        except Exception:
            log.exception("work ended with an error; its lease expires")
        finally:
            close_old_connections()
            with self._lock:
                self._free += 1
                more = self._may_be_more
        if more and not self._ended.is_set():
            self._look()

    def _look(self) -> None:
        try:
            self.wake()
        except Exception:
            log.exception("could not look for more work; a message asks again while it waits")
