"""Threads of one worker process that do leased work. A wake takes as much at once as there are free threads.

A message of Celery only wakes: it costs more than an execution's own statements. A thread that ends its work takes
more only when the last take may have left some.
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

#: Most that is taken at once; several workers then share what is queued.
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
        self._is_taking = self._is_woken = self._may_be_more = False
        self._ended = threading.Event()

    def wake(self) -> None:
        """There may be work. Returns when it was taken; one thread takes for all that wake the crew meanwhile."""
        with self._lock:
            self._is_woken = True
            if self._is_taking:
                return
            self._is_taking = True
        try:
            while limit := self._next_limit():
                self._hand_out(self._take(limit), limit)
        except BaseException:
            with self._lock:
                self._is_taking = False
            raise
        finally:
            close_old_connections()

    def end(self) -> None:
        """Take nothing more."""
        self._ended.set()

    def _next_limit(self) -> int:
        """How much to take now; 0 ends the taking: nobody has woken the crew since the last, or no thread is free."""
        with self._lock:
            limit = min(self._free, AT_ONCE)
            if not self._is_woken or self._ended.is_set() or not limit:
                # The next thread that becomes free takes what the wake was for.
                self._may_be_more |= self._is_woken
                self._is_taking = False
                limit = 0
            self._is_woken = False
            return limit

    def _hand_out(self, work: Sequence[Work], limit: int) -> None:
        with self._lock:
            self._free -= len(work)
            self._may_be_more = len(work) == limit
            self._is_woken |= self._may_be_more
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
            self._take_more()

    def _take_more(self) -> None:
        try:
            self.wake()
        except Exception:
            log.exception("could not take more work; a message wakes this worker again while some waits")
