"""Keeps processes and embedded servers alive."""

import time
from collections.abc import Sequence
from pathlib import Path

from gyreweb import embedded
from gyreweb.supervisor.children import BACKOFF_S, Child
from gyreweb.supervisor.console import Console
from gyreweb.supervisor.errors import CannotStart

TICK_S = 0.2
SERVERS_EVERY_S = 1.0
#: A child that crashes this often before it was ever ready will not come up.
MAX_START_CRASHES = 5
START_TIMEOUT_S = 600.0


class Watch:
    """`tick` is called often; it restarts what has died and says so."""

    def __init__(self, children: Sequence[Child], urls: embedded.Urls, home: Path, console: Console) -> None:
        self.children = children
        self._urls = urls
        self._home = home
        self._console = console
        self._next_server_check_at = 0.0
        self._num_failures = 0

    def wait_until_ready(self) -> None:
        """Raises CannotStart when a child does not come up."""
        started = time.monotonic()
        while waiting := [child for child in self.children if not child.ready]:
            self.tick()
            for child in waiting:
                if child.num_crashes >= MAX_START_CRASHES:
                    raise CannotStart(f"{child.service.name} does not start; its log is {child.log}")
            elapsed = time.monotonic() - started
            if elapsed > START_TIMEOUT_S:
                late = waiting[0]
                raise CannotStart(f"{late.service.name} was not ready in {elapsed:.0f} s; its log is {late.log}")
            names = ", ".join(child.service.name for child in waiting)
            self._console.status(f"Starting {names} … {elapsed:.0f} s", key=names)
            time.sleep(TICK_S)

    def tick(self) -> None:
        for child in self.children:
            child.watch()
        if time.monotonic() >= self._next_server_check_at:
            self._revive_servers()

    def _revive_servers(self) -> None:
        delay = SERVERS_EVERY_S
        try:
            for name in embedded.revive(self._urls, self._home):
                self._console.notice(f"{name} had died and was started again; its log is in {self._home / 'logs'}.")
            self._num_failures = 0
        except (embedded.EmbeddedError, OSError) as error:
            delay = BACKOFF_S[min(self._num_failures, len(BACKOFF_S) - 1)]
            self._num_failures += 1
            self._console.notice(f"{error}\nNext try in {delay:g} s.")
        self._next_server_check_at = time.monotonic() + delay
