"""Who uses the embedded servers: the first user starts them, the last one stops them.

Two lock files in `$GYRE_HOME/run`. `embedded.guard` (exclusive) is held while servers start or stop; `embedded.users`
(shared) is held by every user for as long as it lives. The kernel drops both when a process dies in any way.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gyreweb import env, homefolder
from gyreweb.embedded.errors import EmbeddedError
from gyreweb.embedded.postgres import Postgres
from gyreweb.embedded.valkey import Valkey

DATABASE_VARIABLE = "DATABASE_URL"
REDIS_VARIABLE = "REDIS_URL"


@dataclass(frozen=True)
class Urls:
    """`embedded` names the servers that are ours; the others are external."""

    database: str
    redis: str
    embedded: frozenset[str] = frozenset()

    def environment(self) -> dict[str, str]:
        """The variables that hand these servers to a child process, for which they are external."""
        return {DATABASE_VARIABLE: self.database, REDIS_VARIABLE: self.redis}


@contextmanager
def servers(home: Path | None = None, scratch: bool = False) -> Iterator[Urls]:
    """Addresses of a running Postgres and Valkey for as long as the block lasts.

    `scratch` trades durability for speed and is for tests. Raises EmbeddedError when a server cannot start.
    """
    named = Urls(database=env.text(DATABASE_VARIABLE), redis=env.text(REDIS_VARIABLE))
    if named.database and named.redis:
        yield named
        return
    home = homefolder.prepared(home or env.home())
    postgres, valkey = Postgres(home, scratch), Valkey(home, scratch)
    with _opened(_users_file(home)) as users:
        try:
            with _guard(home):
                fcntl.flock(users, fcntl.LOCK_SH)
                urls = Urls(
                    database=named.database or postgres.start(),
                    redis=named.redis or valkey.start(),
                    embedded=frozenset(
                        server.name
                        for server, external in ((postgres, named.database), (valkey, named.redis))
                        if not external
                    ),
                )
            yield urls
        finally:
            with _guard(home):
                _stop_if_last(users, postgres, valkey)


def revive(urls: Urls, home: Path | None = None) -> list[str]:
    """Start embedded servers that died while in use, at their old addresses; returns their names.

    For a user inside `servers()`. Raises EmbeddedError when one cannot start.
    """
    home = home or env.home()
    ours = ((Postgres(home), urls.database), (Valkey(home), urls.redis))
    dead = [(server, url) for server, url in ours if server.name in urls.embedded and server.pid() is None]
    if dead:
        with _guard(home):
            for server, url in dead:
                if server.start() != url:
                    raise EmbeddedError(f"{server.name} died and its port was taken meanwhile: start Gyre again")
    return [server.name for server, _ in dead]


def stop_if_unused(home: Path | None = None) -> bool:
    """Stop servers that a killed user left behind. False when somebody still uses them."""
    home = home or env.home()
    if not _users_file(home).exists():
        return True
    with _guard(home), _opened(_users_file(home)) as users:
        return _stop_if_last(users, Postgres(home), Valkey(home))


def _stop_if_last(users: int, postgres: Postgres, valkey: Valkey) -> bool:
    fcntl.flock(users, fcntl.LOCK_UN)
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    valkey.stop()
    postgres.stop()
    return True


def _users_file(home: Path) -> Path:
    return home / "run" / "embedded.users"


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # somebody may have cleared it meanwhile
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _guard(home: Path) -> Iterator[None]:
    with _opened(home / "run" / "embedded.guard") as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
