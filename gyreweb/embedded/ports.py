"""TCP ports on loopback: a fixed one by environment variable, else a free one that is remembered in a file."""

import socket
from pathlib import Path

from gyreweb import env
from gyreweb.embedded.errors import EmbeddedError

LOOPBACK = "127.0.0.1"


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(host: str = LOOPBACK) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def choose(variable: str, remembered: Path, server: str) -> int:
    """The port named by `variable`, else the remembered one if it is free, else a free one (then remembered).

    Raises EmbeddedError when the named port is taken.
    """
    if named := env.port(variable, 0):
        if not is_free(named):
            raise EmbeddedError(
                f"port {named} for {server} ({variable}) is taken by another program. "
                f"Set {variable} to a free port, or unset it to let Gyre pick one."
            )
        return named
    if remembered.exists() and (last := remembered.read_text().strip()).isdigit() and is_free(int(last)):
        return int(last)
    port = free_port()
    remembered.write_text(f"{port}\n")
    return port
