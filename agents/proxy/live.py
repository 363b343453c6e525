"""Live calls: a call as its clients and its session see it, and the registry of those of one execution attempt."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.proxy.canonical import ModelRequest
from agents.proxy.history import Prepared
from agents.proxy.parsing import ReplyParser
from agents.proxy.replies import Event, Failure
from agents.proxy.store import ExecutionRow

#: Ended calls that a marked retry can still be answered from.
CALLS_KEPT = 8


@dataclass(slots=True, eq=False, kw_only=True)
class LiveCall:
    """A call that runs, or that a retry can still be answered from. `agents.proxy.call` makes its events.

    The last event is a Finish or a Failure. `acknowledged`: a client has read them all.
    """

    execution: ExecutionRow
    request: ModelRequest
    request_hash: str
    prepared: Prepared
    number: int = -1
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    created: float = field(default_factory=time.time)
    parser: ReplyParser = field(init=False)
    input_tokens: int = field(init=False)
    events: list[Event] = field(default_factory=list)
    is_done: bool = False
    acknowledged: bool = False
    _readers: list[asyncio.Event] = field(default_factory=list)
    _abandoned: str = ""
    _leave_engine: Callable[[], None] | None = None

    @property
    def has_failed(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], Failure)

    @property
    def has_client(self) -> bool:
        return bool(self._readers)

    def join(self) -> asyncio.Event:
        """Be woken at every new event, and at the end."""
        reader = asyncio.Event()
        self._readers.append(reader)
        return reader

    def leave(self, reader: asyncio.Event) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
            self._shrink()

    def abandon(self, why: str) -> None:
        """Stop sampling: nobody will ever read on. What was sampled is recorded with the reason."""
        self._abandoned = why
        if self._leave_engine is not None:
            self._leave_engine()

    def _publish(self, events: Sequence[Event]) -> None:
        self.events.extend(events)
        for reader in self._readers:
            reader.set()

    def _shrink(self) -> None:
        """Once a call is over and nobody reads it, only what answers a retry is kept."""
        if not self.is_done or self._readers:
            return
        if not self.has_failed and len(self.events) > 1:
            self.events[:] = [*self.parser.reply.pieces(), self.events[-1]]
        self.prepared = self.prepared.without_tokens()


@dataclass(slots=True)
class LiveCalls:
    """The calls of one attempt that run, and the newest that have ended, by the hash of their request."""

    num_in_flight: int = 0
    recent: OrderedDict[str, LiveCall] = field(default_factory=OrderedDict)

    def open(self, call: LiveCall) -> None:
        """A call begins: it can be joined by its retries."""
        self.num_in_flight += 1
        self.recent[call.request_hash] = call
        self.recent.move_to_end(call.request_hash)

    def close(self) -> None:
        """One of them is done; the oldest of those that are done are forgotten."""
        self.num_in_flight -= 1
        ended = [key for key, call in self.recent.items() if call.is_done]
        for key in ended[: max(0, len(ended) - CALLS_KEPT)]:
            del self.recent[key]

    def unread(self) -> list[LiveCall]:
        """Calls in flight that no client reads."""
        return [call for call in self.recent.values() if not call.is_done and not call.has_client]

    def retried(self, request_hash: str, headers: Mapping[str, str], prepared: Prepared) -> LiveCall | None:
        """The call that a request repeats, if its client says so or the profile tells (docs/algorithms.md §2.4)."""
        call = self.recent.get(request_hash)
        if call is None or call.has_failed:
            return None
        if headers.get("x-stainless-retry-count", "0") not in ("", "0"):
            return call
        key = prepared.place.retry_key
        is_named = bool(key) and key == call.prepared.place.retry_key
        return call if is_named and not call.acknowledged else None
