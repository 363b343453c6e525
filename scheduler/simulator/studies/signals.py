"""Signals that wait for a safe place: an exception in the middle of a lock would leave it locked for ever."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

HELD = (signal.SIGINT, signal.SIGTERM)


class HeldSignals:
    """Inside, INT and TERM wait; on leaving, the handler of the first that came does what it does.

    Only the main thread receives signals; in another one nothing is held. It can be entered again and again.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._came: list[int] = []

    def __enter__(self) -> HeldSignals:
        if threading.current_thread() is threading.main_thread():
            self._came.clear()
            self._handlers = {number: signal.signal(number, self._hold) for number in HELD}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if self._came and error is None and callable(handler := handlers[self._came[0]]):
            handler(self._came[0], None)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._came.append(number)
