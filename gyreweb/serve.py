"""`python -m gyreweb.serve`: the web process. uvicorn with limits on connections, and none on what it may open."""

from __future__ import annotations

import argparse

import uvicorn

from agents.serving.connections import IDLE_S, guarded
from agents.serving.descriptors import connections_for, raise_limit
from gyreweb import env

GRACE_S = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gyreweb.serve", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=env.web_port())
    options = parser.parse_args()
    uvicorn.run(
        "gyreweb.asgi:application",
        host=options.host,
        port=options.port,
        http=guarded(connections_for(raise_limit())),
        access_log=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
    )


if __name__ == "__main__":
    main()
