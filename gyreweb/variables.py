"""Every environment variable that has a form of its own, read once before anything starts.

Each process reads its own; a wrong value would otherwise come out in the log of whichever process needs it, late.
"""

from collections.abc import Callable, Iterator

from agents.harness.sandbox import identity
from gyreweb import env, reach
from gyreweb.supervisor import cellnetwork

MAX_PROXIES = 64


def _sandbox_uid() -> None:
    try:
        identity.sandbox_uid()
    except ValueError as error:
        raise env.BadEnvironment(str(error)) from None


#: Read as the process reads them that uses them. Raises BadEnvironment.
READERS: tuple[Callable[[], object], ...] = (
    lambda: env.port("GYRE_WEB_PORT", 8700),
    lambda: env.port("GYRE_PROXY_PORT", 8701),
    lambda: env.port("GYRE_PG_PORT", 5432),
    lambda: env.port("GYRE_VALKEY_PORT", 6379),
    lambda: env.integer("GYRE_DB_POOL_SIZE", 0, lowest=0),
    lambda: env.integer("GYRE_MIN_FREE_MB", 256, lowest=1),
    lambda: env.integer("GYRE_PROXIES", 1, lowest=1, highest=MAX_PROXIES),
    lambda: env.flag("GYRE_HTTPS", default=True),
    lambda: env.flag("GYRE_BEHIND_PROXY"),
    lambda: env.flag("GYRE_DEBUG"),
    lambda: env.flag(reach.PLAIN_HTTP_VARIABLE),
    lambda: env.seconds("GYRE_PROXY_FIRST_TOKEN_S", 1.0),
    lambda: env.seconds("GYRE_PROXY_IDLE_TOKEN_S", 1.0),
    env.log_level,
    cellnetwork.wanted,
    _sandbox_uid,
)


def problems() -> Iterator[str]:
    """One sentence for each variable that cannot be used."""
    for read in READERS:
        try:
            read()
        except env.BadEnvironment as error:
            yield str(error)
