"""Every environment variable that has a form of its own, read once before anything starts.

Each process reads its own; a wrong value would otherwise come out in the log of whichever process needs it, late.
"""

from collections.abc import Callable, Iterator

from agents.harness.sandbox import identity
from agents.room import DEFAULT_MIN_FREE_MB, MIN_FREE_VARIABLE
from gyreweb import env, reach
from gyreweb.embedded import postgres, valkey
from gyreweb.supervisor import cellnetwork


def _sandbox_uid() -> None:
    try:
        identity.sandbox_uid()
    except ValueError as error:
        raise env.BadEnvironment(str(error)) from None


#: Read as the process reads them that uses them. Raises BadEnvironment.
READERS: tuple[Callable[[], object], ...] = (
    env.web_port,
    env.proxy_port,
    lambda: env.port(postgres.PORT_VARIABLE, 0),
    lambda: env.port(valkey.PORT_VARIABLE, 0),
    env.db_pool_size,
    lambda: env.integer(MIN_FREE_VARIABLE, DEFAULT_MIN_FREE_MB, lowest=1),
    env.num_proxies,
    env.https,
    env.behind_proxy,
    env.debug,
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
