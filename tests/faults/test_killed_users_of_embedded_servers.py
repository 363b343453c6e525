"""Embedded Postgres and Valkey end with the last process that needs them, also when that is killed."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from operator import not_
from pathlib import Path

import psycopg
import pytest

from gyreweb import embedded, env
from gyreweb.embedded import process
from gyreweb.embedded.postgres import Postgres
from gyreweb.embedded.valkey import Valkey
from tests.support.waiting import wait_for

USER = """
import sys
from gyreweb import embedded
with embedded.servers(scratch=True) as urls:
    print(urls.database, flush=True)
    sys.stdin.read()
"""
Users = list["subprocess.Popen[str]"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "home"
    yield directory
    if directory.exists():
        embedded.stop_if_unused(directory)


@pytest.fixture
def users(home: Path) -> Iterator[Users]:
    """Two commands that use the servers of one home."""
    found: Users = []
    named = ("DATABASE_URL", "REDIS_URL", "GYRE_PG_PORT", "GYRE_VALKEY_PORT")
    variables = {name: value for name, value in os.environ.items() if name not in named} | {"GYRE_HOME": str(home)}
    for _ in range(2):
        user = subprocess.Popen(
            [sys.executable, "-c", USER], cwd=env.REPO_ROOT, env=variables,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        found.append(user)
        assert user.stdout is not None
        assert user.stdout.readline().startswith("postgresql://")
    yield found
    for user in found:
        with user:
            user.kill()


def pids(home: Path) -> tuple[int, int, int]:
    """Of Postgres, Valkey and their watcher."""
    watcher = process.find(home / "run" / "embedded.watcher", str(home / "run" / "embedded.alive"))
    found = (Postgres(home).pid(), Valkey(home).pid(), watcher)
    assert None not in found
    return found  # type: ignore[return-value]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_servers_outlive_one_killed_user_and_end_with_the_last(home: Path, users: Users) -> None:
    servers = pids(home)
    users[0].kill()
    users[0].wait()
    database = Postgres(home).url()
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert pids(home) == servers
    users[1].kill()
    wait_for(lambda: [pid for pid in servers if alive(pid)], "the servers end", until=not_)


def test_servers_end_also_when_their_folder_is_deleted_before_the_last_user_is_killed(home: Path, users: Users) -> None:
    servers = pids(home)
    shutil.rmtree(home)
    for user in users:
        user.kill()
    wait_for(lambda: [pid for pid in servers if alive(pid)], "the servers end", until=not_)
    assert not home.exists()


def test_a_user_that_comes_while_the_watcher_wakes_keeps_its_servers(
    home: Path, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("REDIS_URL")
    for user in users:
        os.kill(user.pid, signal.SIGKILL)
    with embedded.servers(home, scratch=True) as urls:
        for user in users:
            user.wait()
        assert None not in pids(home)
        with psycopg.connect(urls.database) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    assert (Postgres(home).pid(), Valkey(home).pid()) == (None, None)


def test_an_orderly_end_leaves_no_watcher(home: Path, users: Users) -> None:
    servers = pids(home)
    for user in users:
        assert user.stdin is not None
        user.stdin.close()
        assert user.wait() == 0
    assert not any(alive(pid) for pid in servers)
