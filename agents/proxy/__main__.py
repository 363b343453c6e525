"""`python -m agents.proxy`: serve the recording proxy on a TCP port and on a unix socket."""

from __future__ import annotations

import argparse
import logging
import os
import socket
from pathlib import Path

import uvicorn

from agents.proxy.app import ProxyApp

REPO_ROOT = Path(__file__).resolve().parents[2]
#: Connections that wait while the process starts or is busy.
BACKLOG = 2048


def main() -> None:
    options = _options()
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    config = uvicorn.Config(
        ProxyApp(options.database_url),
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_level=options.log_level,
        access_log=False,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
        server_header=False,
        date_header=False,
    )
    with _tcp(options.host, options.port) as tcp, _unix(options.socket) as unix:
        print(f"proxy on http://{options.host}:{tcp.getsockname()[1]} and {options.socket}", flush=True)
        uvicorn.Server(config).run(sockets=[tcp, unix])


def _options() -> argparse.Namespace:
    home = Path(os.environ.get("GYRE_HOME") or REPO_ROOT / "var").expanduser()
    parser = argparse.ArgumentParser(prog="python -m agents.proxy", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--port", type=int, default=int(os.environ.get("GYRE_PROXY_PORT") or 8701), help="0 picks a free one"
    )
    parser.add_argument("--socket", type=Path, default=home / "run" / "proxy.sock", help="unix socket")
    parser.add_argument("--database-url", default=os.environ.get("DATABASE_URL", ""), help="as DATABASE_URL")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    options = parser.parse_args()
    if not options.database_url:
        parser.error("DATABASE_URL is not set; start everything with `make up`, or give --database-url")
    return options


def _tcp(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise SystemExit(
            f"{host}:{port} cannot be taken ({error.strerror}); set GYRE_PROXY_PORT to another port"
        ) from None
    listener.listen(BACKLOG)
    return listener


def _unix(path: Path) -> socket.socket:
    """A socket left over from a process that is gone is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
    except OSError as error:
        raise SystemExit(f"{path} cannot be made ({error}); a shorter GYRE_HOME may help") from None
    path.chmod(0o666)  # the key in the address is what lets a harness in
    listener.listen(BACKLOG)
    return listener


if __name__ == "__main__":
    main()
