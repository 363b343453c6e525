"""`python -m agents.proxy`: serve the recording proxy on a TCP port and on a unix socket."""

from __future__ import annotations

import argparse
import logging
import os
import socket
from pathlib import Path

import uvicorn

from agents.proxy import memory
from agents.proxy.app import ProxyApp
from agents.proxy.engine import FIRST_TOKEN_S
from agents.proxy.engine import IDLE_S as IDLE_TOKEN_S
from agents.proxy.http import given_up
from agents.serving.connections import IDLE_S, guarded
from agents.serving.descriptors import connections_for, raise_limit

REPO_ROOT = Path(__file__).resolve().parents[2]
#: Connections that wait while the process starts or is busy.
BACKLOG = 4096
#: Its connection, and that of its call to an engine.
DESCRIPTORS_OF_A_CLIENT = 2
#: A client that takes no bytes and confirms none for so long has gone.
CLIENT_GONE_MS = 120_000


def main() -> None:
    home = Path(os.environ.get("GYRE_HOME") or REPO_ROOT / "var").expanduser()
    options = _options(home)
    memory.few_arenas()
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with _tcp(options.host, options.port) as tcp, _unix(options.socket) as unix:
        address = f"http://{options.host}:{tcp.getsockname()[1]}"
        app = ProxyApp(
            options.database_url,
            name=options.name,
            socket=str(options.socket.resolve()),
            address=address,
            home=home,
            first_token_s=options.first_token_s,
            idle_s=options.idle_token_s,
        )
        config = uvicorn.Config(
            app,
            http=guarded(connections_for(raise_limit(), DESCRIPTORS_OF_A_CLIENT), given_up),
            loop="uvloop",
            ws="none",
            lifespan="on",
            log_level=options.log_level,
            access_log=False,
            backlog=BACKLOG,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=5,
            server_header=False,
            date_header=False,
        )
        print(f"{options.name} on {address} and {options.socket}", flush=True)
        uvicorn.Server(config).run(sockets=[tcp, unix])


def _options(home: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m agents.proxy", description=__doc__)
    parser.add_argument(
        "--name",
        default=os.environ.get("GYRE_PROXY_NAME") or "proxy-0",
        help="identity that stays the same over restarts; every process its own",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--port", type=int, default=os.environ.get("GYRE_PROXY_PORT") or "8701", help="0 picks a free one"
    )
    parser.add_argument("--socket", type=Path, default=home / "run" / "proxy.sock", help="unix socket")
    parser.add_argument("--database-url", default=os.environ.get("DATABASE_URL", ""), help="as DATABASE_URL")
    parser.add_argument(
        "--first-token-s",
        type=float,
        default=os.environ.get("GYRE_PROXY_FIRST_TOKEN_S") or str(FIRST_TOKEN_S),
        help="a call leaves an engine that has sent no token for so long (GYRE_PROXY_FIRST_TOKEN_S)",
    )
    parser.add_argument(
        "--idle-token-s",
        type=float,
        default=os.environ.get("GYRE_PROXY_IDLE_TOKEN_S") or str(IDLE_TOKEN_S),
        help="the same between two tokens (GYRE_PROXY_IDLE_TOKEN_S)",
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    options = parser.parse_args()
    if not options.database_url:
        parser.error("DATABASE_URL is not set; start everything with `make up`, or give --database-url")
    return options


def _tcp(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, CLIENT_GONE_MS)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        raise SystemExit(f"{host}:{port} cannot be taken ({error}); set GYRE_PROXY_PORT to another port") from None
    listener.listen(BACKLOG)
    return listener


def _unix(path: Path) -> socket.socket:
    """A socket left over from a process that is gone is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        listener.bind(str(path))
    except OSError as error:
        raise SystemExit(
            f"{path} cannot be made ({error}); GYRE_HOME must be a folder that can be written, with a shorter name"
        ) from None
    path.chmod(0o666)  # the key in the address is what lets a harness in
    listener.listen(BACKLOG)
    return listener


if __name__ == "__main__":
    main()
