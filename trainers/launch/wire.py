"""The cell host's socket: one JSON line in, one JSON line out. Used by the host, its agents and the control plane."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOCKET_NAME = "cellhost.sock"
MAX_LINE_BYTES = 1 << 20


class HostUnavailable(ConnectionError):
    """Nobody answers on the cell host's socket; the message names the socket."""


class HostRefused(RuntimeError):
    """The cell host answered with an error."""


def socket_path(home: Path) -> Path:
    return home / "run" / SOCKET_NAME


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A name for `path` that fits a socket address (108 bytes) however deep its folder lies."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def read_line(connection: socket.socket) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        part = connection.recv(65536)
        if not part or len(received) > MAX_LINE_BYTES:
            break
        received += part
    return bytes(received)


def ask(home: Path, request: dict[str, Any], timeout_s: float = 10.0) -> dict[str, Any]:
    """Send one request to the host under `home`. Raises HostUnavailable or HostRefused."""
    path = socket_path(home)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, short_name(path) as name:
            connection.settimeout(timeout_s)
            connection.connect(name)
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = read_line(connection)
    except OSError as error:
        raise HostUnavailable(f"the cell host does not answer on {path}: {error}") from error
    if not line:
        raise HostUnavailable(f"the cell host on {path} closed the connection without an answer")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise HostRefused(answer["error"])
    return answer
