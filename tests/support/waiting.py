"""Waiting for what another process or thread does, with a bound."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60.0
POLL_S = 0.05


def wait_for(condition: Callable[[], T], what: str | Callable[[], str], patience_s: float = PATIENCE_S) -> T:
    """Poll until `condition` is true; its value. A test that waits in vain fails with `what`."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(POLL_S)
    raise AssertionError(f"in vain: {what() if callable(what) else what}")
