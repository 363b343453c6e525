"""What tests of processes look at and wait for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def in_namespace(inode: int) -> list[int]:
    """Processes of a PID namespace, as the host sees them."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(place / "ns" / "pid") == f"pid:[{inode}]":
                found.append(int(place.name))
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
