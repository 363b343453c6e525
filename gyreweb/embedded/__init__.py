"""Postgres and Valkey that come with Gyre, for one machine and no administrator.

    with embedded.servers() as urls:
        ...  # urls.database, urls.redis

The first user starts them, the last one stops them (a file lock counts the users). `DATABASE_URL` or `REDIS_URL` in
the environment names an external server; then the embedded one is not started.
"""

from gyreweb.embedded.errors import EmbeddedError
from gyreweb.embedded.lifecycle import DATABASE_VARIABLE, Urls, revive, servers, stop_if_unused

__all__ = ["DATABASE_VARIABLE", "EmbeddedError", "Urls", "revive", "servers", "stop_if_unused"]
