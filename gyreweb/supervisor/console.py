"""What `make up` prints: notices that stay, and one status line that is redrawn in a terminal."""

import shutil
import sys
import time
from typing import TextIO

#: Without a terminal an unchanged status is printed this seldom.
QUIET_S = 60.0


class Console:
    """Writes to `stream`. In ONCE mode that is standard error: standard output is for the result."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.is_terminal = self.stream.isatty()
        self._drawn = ""
        self._last = ("", float("-inf"))

    def notice(self, text: str) -> None:
        self._erase()
        self._write(f"{text}\n")

    def status(self, text: str, key: str = "") -> None:
        """Show `text` as the status. Without a terminal it is a line of its own, when `key` changed or seldom."""
        if self.is_terminal:
            text = text[: shutil.get_terminal_size().columns - 1]  # a wrapped line could not be erased
            if text != self._drawn:
                self._erase()
                self._write(text)
                self._drawn = text
            return
        now = time.monotonic()
        last_key, last_time = self._last
        if (key or text) != last_key or now - last_time > QUIET_S:
            self._write(f"{text}\n")
            self._last = (key or text, now)

    def _erase(self) -> None:
        if self._drawn:
            self._write("\r\x1b[2K")
            self._drawn = ""

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except BrokenPipeError:
            self.stream = open("/dev/null", "w")  # noqa: SIM115  the reader left; the run goes on
