"""A whole Gyre of a test's own: `make up` in a GYRE_HOME of its own, with every real process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from gyreweb import env
from gyreweb.embedded import ports

SERVERS = ("DATABASE_URL", "REDIS_URL", "GYRE_PG_PORT", "GYRE_VALKEY_PORT")


def use_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This test's commands belong to `home`, with free ports and embedded servers of its own."""
    for variable in SERVERS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("GYRE_HOME", str(home))
    monkeypatch.setenv("GYRE_WEB_PORT", str(ports.free_port()))
    monkeypatch.setenv("GYRE_PROXY_PORT", str(ports.free_port()))


def manage(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments], cwd=env.REPO_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def up(home: Path, **variables: str) -> "Iterator[subprocess.Popen[str]]":
    """`make up`; whoever leaves early, as a test that fails, ends it."""
    with (home / "up.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gyreweb.supervisor", "up"],
            cwd=env.REPO_ROOT, env=os.environ | variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            text=True,
        )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.terminate()


def calls(database: str) -> set[tuple[int, int, int, int]]:
    """(execution, attempt, number, output tokens) of every recorded call."""
    with psycopg.connect(database) as connection:
        query = "SELECT execution_id, attempt, number, output_tokens FROM agents_call"
        return set(connection.execute(query).fetchall())
