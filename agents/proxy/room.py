"""Memory that request bodies may take at once: who finds no room waits, and its sender with it."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from agents.proxy.http import MAX_BODY_BYTES, Refusal, Scope

#: Bodies up to this size have room of their own, so that they never wait for large ones.
SMALL_BYTES = 1 << 20
#: Requests of one execution that may be open at once.
MAX_OPEN_REQUESTS = 128


@dataclass(slots=True, eq=False)
class _Waiter:
    owner: str
    num_bytes: int
    granted: asyncio.Future[None]


@dataclass(slots=True)
class Room:
    """`num_bytes` for all, `for_one` for each owner; one that asks for more than that gets it when it is alone.

    Room goes to those who wait in their order. An owner that has its share holds up nobody else.
    """

    num_bytes: int
    for_one: int
    taken: int = 0
    _taken_by: Counter[str] = field(default_factory=Counter)
    _waiting: deque[_Waiter] = field(default_factory=deque)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def of(self, owner: str, num_bytes: int) -> AsyncIterator[None]:
        """Hold so much room inside the block."""
        waiter = _Waiter(owner, num_bytes, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._serve()
        try:
            await waiter.granted
            yield
        finally:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self.taken -= num_bytes
                self._taken_by[owner] -= num_bytes
                if not self._taken_by[owner]:
                    del self._taken_by[owner]
            else:
                self._waiting.remove(waiter)
            self._serve()

    def _serve(self) -> None:
        for waiter in list(self._waiting):
            held = self._taken_by.get(waiter.owner, 0)
            if held and held + waiter.num_bytes > self.for_one:
                continue
            if self.taken and self.taken + waiter.num_bytes > self.num_bytes:
                return
            self._waiting.remove(waiter)
            self.taken += waiter.num_bytes
            self._taken_by[waiter.owner] += waiter.num_bytes
            waiter.granted.set_result(None)


@dataclass(slots=True)
class Intake:
    """Room of a process's bodies, by execution key: while they are read, and while they are parsed and rendered.

    A body that is worked on takes several times its size, so fewer bytes are worked on than read.
    """

    _reading: Room = field(default_factory=lambda: Room(256 << 20, 32 << 20))
    _reading_large: Room = field(default_factory=lambda: Room(4 * MAX_BODY_BYTES, MAX_BODY_BYTES))
    _working: Room = field(default_factory=lambda: Room(32 << 20, 8 << 20))
    _working_large: Room = field(default_factory=lambda: Room(MAX_BODY_BYTES, MAX_BODY_BYTES))
    _open: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def request(self, key: str) -> Iterator[None]:
        """One open request. Raises Refusal when its execution has too many."""
        if self._open[key] >= MAX_OPEN_REQUESTS:
            many = f"this execution has {MAX_OPEN_REQUESTS} requests open already; wait for one of them to end"
            raise Refusal("unavailable", many)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def reading(self, key: str, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Room for a body that is about to be read; one without a stated length may be of any."""
        length = next((value for name, value in scope["headers"] if name == b"content-length"), None)
        num_bytes = min(int(length), MAX_BODY_BYTES) if length is not None and length.isdigit() else MAX_BODY_BYTES
        room = self._reading if num_bytes <= SMALL_BYTES else self._reading_large
        return room.of(key, num_bytes)

    def working(self, key: str, num_bytes: int) -> AbstractAsyncContextManager[None]:
        """Room for a body that is about to be parsed and rendered."""
        room = self._working if num_bytes <= SMALL_BYTES else self._working_large
        return room.of(key, num_bytes)
