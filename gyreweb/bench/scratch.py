"""A database of its own for a benchmark, on the server that Gyre uses: nothing that runs is touched, nothing stays."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.core.management import call_command
from django.db import connection
from psycopg import sql


@contextmanager
def database() -> Iterator[str]:
    """Migrated and empty; Django and child processes see it while the block runs. Yields its URL."""
    before = os.environ["DATABASE_URL"]
    name = f"bench_gyre_{os.getpid()}"
    server, _, _ = before.rpartition("/")
    _on_server(before, "CREATE DATABASE {}", name)
    settings = connection.settings_dict
    old_name = settings["NAME"]
    connection.close()
    try:
        settings["NAME"], os.environ["DATABASE_URL"] = name, f"{server}/{name}"
        print(f"a scratch database is made: {name}", file=sys.stderr)
        call_command("migrate", verbosity=0, interactive=False)
        yield os.environ["DATABASE_URL"]
    finally:
        connection.close()
        settings["NAME"], os.environ["DATABASE_URL"] = old_name, before
        _on_server(before, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def _on_server(url: str, statement: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(sql.SQL(statement).format(sql.Identifier(name)))
