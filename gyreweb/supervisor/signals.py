"""INT, TERM and HUP: the first one asks for an orderly stop, a later one for a quick one."""

import signal
from types import FrameType
from typing import Any, Self

from gyreweb.supervisor.errors import StopRequested


class Signals:
    """Context manager. While it lasts, the first signal raises StopRequested in the main thread."""

    def __init__(self) -> None:
        self._num_received = 0
        self._stopping = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # under nohup
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def begin_stop(self) -> None:
        """From here on a signal interrupts nothing; it only makes `hurry` true."""
        self._num_received = max(self._num_received, 1)
        self._stopping = True

    def hurry(self) -> bool:
        return self._num_received > 1

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._num_received += 1
        if not self._stopping:
            self._stopping = True
            raise StopRequested(signal.Signals(number).name)
