"""Carries bytes between a listening socket inside a sandbox and the model proxy's unix socket, on one selector.

A connection whose proxy does not answer (it restarts) waits: the harness only sees a slow reply.
"""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import time

_CHUNK = 1 << 16
#: Between two tries, drawn anew each time: many sandboxes wait for the same proxy.
_RETRY_S = (0.1, 0.5)
_GIVE_UP_S = 60.0


class _Half:
    """One direction of a connection: what was read from `source` and not yet written to `target`."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source, self.target = source, target
        self.waiting = b""
        self.ended = False


class Connection:
    """Two sockets and the two directions between them."""

    def __init__(self, inner: socket.socket, outer: socket.socket, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._sockets = (inner, outer)
        self._halves = (_Half(inner, outer), _Half(outer, inner))
        self._interest = {inner: 0, outer: 0}
        self.closed = False
        self._watch()

    def ready(self, who: socket.socket, mask: int) -> None:
        try:
            for half in self._halves:
                if mask & selectors.EVENT_READ and who is half.source and not half.waiting and not half.ended:
                    half.waiting = half.source.recv(_CHUNK)
                    half.ended = not half.waiting
                    self._write(half)
                elif mask & selectors.EVENT_WRITE and who is half.target and half.waiting:
                    self._write(half)
        except BlockingIOError:
            pass
        except OSError:
            self.close()
        if not self.closed:
            self._watch()

    def _write(self, half: _Half) -> None:
        with contextlib.suppress(BlockingIOError):
            half.waiting = half.waiting[half.target.send(half.waiting) :] if half.waiting else b""
        if half.ended and not half.waiting:
            half.target.shutdown(socket.SHUT_WR)

    def _watch(self) -> None:
        if all(half.ended and not half.waiting for half in self._halves):
            self.close()
            return
        wanted = dict.fromkeys(self._sockets, 0)
        for half in self._halves:
            if half.waiting:
                wanted[half.target] |= selectors.EVENT_WRITE
            elif not half.ended:
                wanted[half.source] |= selectors.EVENT_READ
        for sock, events in wanted.items():
            if events == self._interest[sock]:
                continue
            if not self._interest[sock]:
                self._selector.register(sock, events, self.ready)
            elif not events:
                self._selector.unregister(sock)
            else:
                self._selector.modify(sock, events, self.ready)
            self._interest[sock] = events

    def close(self) -> None:
        self.closed = True
        for sock in self._sockets:
            if self._interest[sock]:
                self._selector.unregister(sock)
                self._interest[sock] = 0
            sock.close()


class Forwarder:
    """All connections of one sandbox."""

    def __init__(self, listener: socket.socket, proxy_socket: str, selector: selectors.BaseSelector) -> None:
        self._listener, self._proxy_socket, self._selector = listener, proxy_socket, selector
        self._connections: list[Connection] = []
        self._unanswered: list[tuple[float, socket.socket]] = []
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def _accept(self, _who: socket.socket, _mask: int) -> None:
        with contextlib.suppress(OSError):
            inner, _ = self._listener.accept()
            inner.setblocking(False)
            inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._unanswered.append((time.monotonic() + _GIVE_UP_S, inner))
            self.retry()

    def retry(self) -> float | None:
        """Try to reach the proxy for connections that wait. Seconds until the next try, None if none waits."""
        waiting, self._unanswered = self._unanswered, []
        for deadline, inner in waiting:
            outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            outer.setblocking(False)
            try:
                outer.connect(self._proxy_socket)
            except OSError:
                outer.close()
                if time.monotonic() > deadline:
                    inner.close()
                else:
                    self._unanswered.append((deadline, inner))
                continue
            self._connections = [known for known in self._connections if not known.closed]
            self._connections.append(Connection(inner, outer, self._selector))
        return random.uniform(*_RETRY_S) if self._unanswered else None

    def close(self) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(self._listener)
        self._listener.close()
        for connection in self._connections:
            if not connection.closed:
                connection.close()
        for _, inner in self._unanswered:
            inner.close()
