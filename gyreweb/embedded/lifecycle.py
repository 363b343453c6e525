"""Who uses the embedded servers: the first user starts them, the last one stops them.

Lock files in `$GYRE_HOME/run`. `embedded.guard` (exclusive) is held while servers start or stop; `embedded.users` and
`embedded.alive` (shared) are held by every user for as long as it lives. The kernel drops them when a process dies in
any way. A watcher waits for the end of `alive`, and stops the servers of users that were killed (watcher.py).
"""

import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gyreweb import env, homefolder
from gyreweb.embedded import process
from gyreweb.embedded.errors import EmbeddedError
from gyreweb.embedded.postgres import Postgres
from gyreweb.embedded.valkey import Valkey

DATABASE_VARIABLE = "DATABASE_URL"
REDIS_VARIABLE = "REDIS_URL"

WATCHER = Path(__file__).with_name("watcher.py")


@dataclass(frozen=True)
class Urls:
    """`embedded` names the servers that are ours; the others are external.

    `database_socket`: the same database without a network; empty where there is no such way to it.
    """

    database: str
    redis: str
    embedded: frozenset[str] = frozenset()
    database_socket: str = ""

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
    with _opened(_users_file(home)) as users, _opened(_alive_file(home)) as alive:
        try:
            with _guard(home):
                fcntl.flock(users, fcntl.LOCK_SH)
                fcntl.flock(alive, fcntl.LOCK_SH)
                _watch(home)
                urls = Urls(
                    database=named.database or postgres.start(),
                    redis=named.redis or valkey.start(),
                    embedded=frozenset(
                        server.name
                        for server, external in ((postgres, named.database), (valkey, named.redis))
                        if not external
                    ),
                    database_socket="" if named.database else postgres.socket_url(),
                )
            yield urls
        finally:
            with _guard(home):
                _stop_if_last(home, users)


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
        return _stop_if_last(home, users)


def stop_what_nobody_uses(home: Path, alive: int) -> bool:
    """For the watcher, whose lock is `alive`, when no user seemed to be left. False when there is one again."""
    with suppress(FileNotFoundError):
        if os.path.samestat(_alive_file(home).stat(), os.fstat(alive)):
            with _guard(home), _opened(_users_file(home)) as users:
                return _stop_if_last(home, users)
    # The home was deleted under the servers: their pid files are gone with it.
    for server in (Valkey(home), Postgres(home)):
        for pid in process.without_folder(server.marker):
            process.stop(pid, server.marker, signal.SIGTERM, timeout_s=5.0)
    return True


def _watch(home: Path) -> None:
    """Have a watcher, unless there is one. Under the guard, so that none is just about to end."""
    alive = str(_alive_file(home))
    if process.find(_watcher_file(home), alive) is None:
        command = [sys.executable, "-I", "-S", str(WATCHER), alive, str(home)]
        started = process.start("watcher", command, home / "logs" / "embedded.log", {"LC_ALL": "C.UTF-8"})
        _watcher_file(home).write_text(f"{started.pid}\n")


def _end_watcher(home: Path) -> None:
    pid = process.find(_watcher_file(home), str(_alive_file(home)))
    _watcher_file(home).unlink(missing_ok=True)
    if pid is not None and pid != os.getpid():
        process.stop(pid, str(_alive_file(home)), signal.SIGKILL)


def _stop_if_last(home: Path, users: int) -> bool:
    fcntl.flock(users, fcntl.LOCK_UN)
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    Valkey(home).stop()
    Postgres(home).stop()
    _end_watcher(home)
    return True


def _users_file(home: Path) -> Path:
    return home / "run" / "embedded.users"


def _alive_file(home: Path) -> Path:
    return home / "run" / "embedded.alive"


def _watcher_file(home: Path) -> Path:
    return home / "run" / "embedded.watcher"


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
