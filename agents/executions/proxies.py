"""Which recording proxy gets an execution (docs/proxy.md, "Ownership")."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.db import connection

#: A proxy heard of within this time takes new executions before all others.
ALIVE_WITHIN = timedelta(seconds=10)

_PROXIES = """
SELECT p.id, p.name, p.socket, p.stopped_at IS NOT NULL,
    NOT (p.stopped_at IS NULL AND p.seen_at > statement_timestamp() - %(alive)s),
    (SELECT count(*) FROM agents_execution e
        WHERE e.proxy_id = p.id AND e.state = 'running' AND e.lease_expires_at IS NOT NULL)
FROM agents_proxyprocess p WHERE p.socket <> ''
"""


@dataclass
class Proxy:
    """A proxy and its load: how many running executions it has."""

    id: int
    name: str
    socket: str
    is_stopped: bool
    is_silent: bool
    num_running: int


def choose() -> Proxy | None:
    """The living proxy on this machine with the fewest running executions; one that restarts when none lives.

    None where no proxy has registered a socket that this machine has: then the worker's own default holds.
    """
    return spread(1)[0]


def spread(count: int) -> list[Proxy | None]:
    """A proxy for each of so many executions, as `choose` would give them one after another."""
    with connection.cursor() as cursor:
        cursor.execute(_PROXIES, {"alive": ALIVE_WITHIN})
        found = [Proxy(*row) for row in cursor.fetchall()]
    here = [proxy for proxy in found if Path(proxy.socket).is_socket()]
    chosen: list[Proxy | None] = []
    for _ in range(count):
        best = min(here, key=lambda p: (p.is_silent, p.is_stopped, p.num_running, p.name), default=None)
        if best is not None:
            best.num_running += 1
        chosen.append(best)
    return chosen
