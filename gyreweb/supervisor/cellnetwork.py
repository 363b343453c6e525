"""Whether the cells run in a network namespace of their own, or share this machine's network."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.proxy import door
from gyreweb import embedded, env, reach
from gyreweb.supervisor.errors import CannotStart
from trainers.launch import enclosure

VARIABLE = "GYRE_CELL_NETWORK"
PRIVATE, SHARED_WORD = "private", "shared"
OPEN_PORTS = (
    "engines' stores and the buffers of weights and gradients listen on all interfaces of this machine, "
    "without a secret"
)


@dataclass(frozen=True)
class CellNetwork:
    """`prefix` makes the namespaces; empty: the cells share this machine's network."""

    prefix: tuple[str, ...] = ()
    database: str = ""

    def enclosed(self, command: tuple[str, ...]) -> tuple[str, ...]:
        inside = (sys.executable, "-m", "trainers.launch.enclosure")
        return (*self.prefix, *inside, *command) if self.prefix else command

    def for_cells(self) -> Mapping[str, str]:
        """Variables of the cell host."""
        return {embedded.DATABASE_VARIABLE: self.database} if self.prefix else {}

    def for_proxies(self, home: Path) -> Mapping[str, str]:
        return {door.VARIABLE: str(enclosure.socket_path(home))} if self.prefix else {}


SHARED = CellNetwork()


def choose(urls: embedded.Urls, notice: Callable[[str], None]) -> CellNetwork:
    """A network namespace for the cells where one can be made.

    Raises CannotStart where one is required, by the variable or by a public address, and cannot be made.
    """
    chosen = wanted()
    if chosen == SHARED_WORD:
        return SHARED
    prefix, why = enclosure.find_prefix()
    if not urls.database_socket:
        prefix, why = (), "the database has no unix socket (DATABASE_URL is set, or the name of GYRE_HOME is too long)"
    if prefix:
        return CellNetwork(prefix, urls.database_socket)
    if chosen == PRIVATE:
        raise CannotStart(f"{VARIABLE}=private, but the cells cannot have a network of their own: {why}")
    if public := reach.public_addresses():
        raise CannotStart(
            f"{OPEN_PORTS}, and it has a public address ({public[0]}). The cells cannot have a network of their own: "
            f"{why}. Mend that (`manage.py doctor` says how), or, where a firewall lets nobody in, "
            f"set {VARIABLE}=shared."
        )
    notice(f"Note: {OPEN_PORTS}; keep a firewall before it. The cells have no network of their own: {why}")
    return SHARED


def wanted() -> str:
    """What `GYRE_CELL_NETWORK` says; empty: a network of their own where that can be had. Raises BadEnvironment."""
    word = env.text(VARIABLE)
    if word not in ("", PRIVATE, SHARED_WORD):
        raise env.BadEnvironment(f"{VARIABLE}={word!r} is not one of {PRIVATE}, {SHARED_WORD}")
    return word
