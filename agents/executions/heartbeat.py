"""One thread per worker process that keeps all its leases alive and notices those that are taken away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import Error as DatabaseError

from agents.executions import leases
from agents.executions.leases import Lease

log = logging.getLogger(__name__)

_CHECK_EVERY_S = 1.0
_RENEW_EVERY_S = leases.LEASE_S / 4


@dataclass
class Hold:
    """A lease as its thread sees it. `lost`: cancelled, superseded, or the worker ends."""

    lease: Lease
    lost: threading.Event = field(default_factory=threading.Event)
    on_lost: Callable[[], None] | None = None

    def lose(self) -> None:
        self.lost.set()
        if self.on_lost:
            self.on_lost()


class Heartbeat:
    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._lock = threading.Lock()
        self._holds: dict[tuple[int, int], Hold] = {}
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    @contextmanager
    def holding(self, lease: Lease) -> Iterator[Hold]:
        """Keep the lease alive inside the block."""
        hold, name = Hold(lease), (lease.execution_id, lease.attempt)
        with self._lock:
            self._holds[name] = hold
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="lease-heartbeat", daemon=True)
                self._thread.start()
        try:
            yield hold
        finally:
            with self._lock:
                self._holds.pop(name, None)

    def end(self) -> None:
        """Give all leases up: what runs is stopped and started again elsewhere."""
        self._ended.set()
        with self._lock:
            holds = list(self._holds.values())
        if holds:
            leases.give_up(self.owner)
        for hold in holds:
            hold.lose()

    def give_up_all(self, reason: str) -> None:
        """Stop what runs under these leases at once; it starts again when it may."""
        with self._lock:
            holds = [hold for hold in self._holds.values() if not hold.lost.is_set()]
        for hold in holds:
            hold.lose()
        if holds:
            log.warning("%d executions are given up and start again later: %s", len(holds), reason)
            leases.give_up(self.owner, reason)

    def _beat(self) -> None:
        renewed = time.monotonic()
        while not self._ended.wait(_CHECK_EVERY_S):
            with self._lock:
                holds = dict(self._holds)
            if not holds:
                continue
            try:
                ids = [execution_id for execution_id, _ in holds]
                if time.monotonic() - renewed >= _RENEW_EVERY_S:
                    live = leases.renew(self.owner, ids)
                    renewed = time.monotonic()
                else:
                    live = leases.live_attempts(self.owner, ids)
            except DatabaseError as error:
                log.warning("leases could not be read, trying again: %s", error)
                leases.replace_broken_connections()
                continue
            for name, hold in holds.items():
                if name not in live and not hold.lost.is_set() and self._is_held(name):
                    hold.lose()

    def _is_held(self, name: tuple[int, int]) -> bool:
        with self._lock:
            return name in self._holds
