"""Waiting for what another process or thread does, with a bound: the only place of the tests that polls."""

import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

PATIENCE_S = 60.0
POLL_S = 0.05
#: So much of what was seen last is shown.
SHOWN_CHARACTERS = 500


def wait_for(
    look: Callable[[], T],
    what: str | Callable[[], str],
    patience_s: float = PATIENCE_S,
    *,
    until: Callable[[T], object] = bool,
    poll_s: float = POLL_S,
) -> T:
    """Look until what is seen satisfies `until`; returns it. In vain: fails with `what` and what was seen last."""
    deadline = time.monotonic() + patience_s
    while not until(seen := look()):
        if time.monotonic() > deadline:
            awaited = what() if callable(what) else what
            raise AssertionError(f"waited {patience_s:g} s in vain: {awaited}; last seen: {seen!r:.{SHOWN_CHARACTERS}}")
        time.sleep(poll_s)
    return seen


def wait_until_serving(
    url: str, process: "subprocess.Popen[Any]", get: Callable[[str], httpx.Response] = httpx.get
) -> None:
    """Until `process` answers at `url` with 200. Fails at once when it ends instead."""

    def status() -> int | str:
        try:
            return get(url).status_code
        except httpx.TransportError as error:
            assert process.poll() is None, f"{process.args} ended with {process.returncode}"
            return repr(error)

    wait_for(status, f"{url} is served", until=lambda seen: seen == 200)
