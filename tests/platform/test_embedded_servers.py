"""The embedded Postgres and Valkey: who starts and stops them, and what survives a kill."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from gyreweb import embedded, env
from gyreweb.embedded.postgres import NO_SUCH_PID, Postgres
from gyreweb.embedded.valkey import Valkey


def running(home: Path) -> tuple[bool, bool]:
    return Postgres(home).pid() is not None, Valkey(home).pid() is not None


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_user_starts_both_and_the_last_one_stops_them(home: Path) -> None:
    with embedded.servers():
        with embedded.servers() as urls:
            assert running(home) == (True, True)
            with psycopg.connect(urls.database) as connection:
                assert connection.execute("SELECT current_database()").fetchone() == ("gyre",)
        assert running(home) == (True, True)
    assert running(home) == (False, False)


def test_secrets_are_private_and_no_login_works_without_password(home: Path) -> None:
    parent_mode = mode(home.parent)
    with embedded.servers() as urls:
        assert mode(home / "postgres" / "password") == mode(home / "valkey" / "password") == 0o600
        assert mode(home / "valkey" / "valkey.conf") == 0o600
        without_password = urls.database.replace(urls.database.split(":")[2].split("@")[0], "guess")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(without_password)
    assert mode(home.parent) == parent_mode == 0o700


def test_data_and_ports_stay_over_a_restart(home: Path) -> None:
    with embedded.servers() as first, psycopg.connect(first.database) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
        with redis.Redis.from_url(first.redis) as client:
            client.set("kept", "7")
        connection.commit()
    with embedded.servers() as second:
        assert second == first
        with psycopg.connect(second.database) as connection, redis.Redis.from_url(second.redis) as client:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
            assert client.get("kept") == b"7"


def test_committed_rows_survive_kill_9_of_postgres_and_a_restart_follows_at_once(home: Path) -> None:
    with embedded.servers() as urls:
        with psycopg.connect(urls.database) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
        pid = Postgres(home).pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with embedded.servers() as again, psycopg.connect(again.database) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
            assert Postgres(home).pid() != pid


def test_servers_that_die_in_use_come_back_at_their_old_addresses(home: Path) -> None:
    with embedded.servers() as urls:
        assert embedded.revive(urls) == []
        for pid in (Postgres(home).pid(), Valkey(home).pid()):
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        assert embedded.revive(urls) == ["Postgres", "Valkey"]
        with psycopg.connect(urls.database) as connection, redis.Redis.from_url(urls.redis) as client:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert client.ping()


def test_a_pid_that_another_program_got_is_neither_trusted_nor_killed(home: Path) -> None:
    with embedded.servers():
        pass
    pid_file = home / "postgres" / "data" / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{home / 'postgres' / 'data'}\n1\n1\n\n127.0.0.1\n\nready\n")
    (home / "valkey" / "pid").write_text(f"{os.getpid()}\n")
    assert running(home) == (False, False)
    with embedded.servers():
        assert running(home) == (True, True)
        assert pid_file.read_text().split("\n")[0] not in (str(os.getpid()), str(NO_SUCH_PID))


def test_stop_if_unused_spares_servers_in_use(home: Path) -> None:
    with embedded.servers():
        assert not embedded.stop_if_unused()
        assert running(home) == (True, True)
    assert embedded.stop_if_unused()


def test_a_taken_port_is_named_with_its_variable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setenv("GYRE_VALKEY_PORT", str(port))
        with (
            pytest.raises(embedded.EmbeddedError, match=rf"port {port} for Valkey \(GYRE_VALKEY_PORT\)"),
            embedded.servers(),
        ):
            pass
    assert running(home) == (False, False)


def test_a_server_that_cannot_start_shows_the_end_of_its_log(home: Path) -> None:
    with embedded.servers():
        pass
    shutil.rmtree(home / "postgres" / "data" / "global")
    with (
        pytest.raises(embedded.EmbeddedError, match=r"(?s)Postgres did not start.*postgres\.log.*global"),
        embedded.servers(),
    ):
        pass


def test_external_servers_are_used_as_they_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/gyre")
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere")
    with embedded.servers() as urls:
        assert urls == embedded.Urls("postgresql://elsewhere/gyre", "redis://elsewhere")
    assert not home.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="this whole run is by an ordinary user")
@pytest.mark.parametrize("uid", [1, 54321], ids=["with a passwd entry", "unknown to the system"])
def test_an_ordinary_user_gets_the_same(home: Path, uid: int) -> None:
    program = (
        "import os, psycopg; from gyreweb import embedded\n"
        f"assert os.geteuid() == {uid}\n"
        "with embedded.servers() as urls, psycopg.connect(urls.database) as connection:\n"
        "    print(connection.execute('SELECT current_database()').fetchone()[0])"
    )
    done = subprocess.run(
        ["unshare", "--user", f"--map-user={uid}", f"--map-group={uid}", "--", sys.executable, "-c", program],
        cwd=env.REPO_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "gyre\n"), done.stderr
    assert mode(home) == mode(home / "postgres") == mode(home / "valkey") == 0o700


def test_a_full_disk_is_said_before_anything_is_written(tmp_path: Path) -> None:
    program = (
        "from gyreweb import embedded\n"
        "try:\n    embedded.servers().__enter__()\n"
        "except embedded.EmbeddedError as error: print(error)"
    )
    on_a_tiny_disk = 'mount -t tmpfs -o size=8m tmpfs "$1" && exec "$2" -c "$3"'
    done = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", on_a_tiny_disk, "sh"),
            *(tmp_path, sys.executable, program),
        ],
        cwd=env.REPO_ROOT,
        env={"PATH": os.environ["PATH"], "GYRE_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("the disk is full: "), done.stderr
    assert "set GYRE_HOME to a directory on another disk" in done.stdout
