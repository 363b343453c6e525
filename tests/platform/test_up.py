"""`make up` with every real process: start, refuse a second one, stop, kill -9, resume."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from test_management_commands import manage

from gyreweb import embedded, env
from gyreweb.embedded import ports
from gyreweb.embedded.postgres import Postgres
from gyreweb.embedded.valkey import Valkey
from gyreweb.supervisor import record

#: A run of seconds, once everything is up.
SMALL = ("steps=1", "groups_per_batch=2", "executions_per_group=2", "eval_every_steps=0", "eval_tasks=0")
COMMAND = (sys.executable, "-m", "gyreweb.supervisor")


@contextmanager
def up(**variables: str) -> Iterator["subprocess.Popen[str]"]:
    """A running `up`; killed at the end if it still runs."""
    with subprocess.Popen(
        [*COMMAND, "up"], cwd=env.REPO_ROOT, env=os.environ | variables, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def ask(command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*COMMAND, command], cwd=env.REPO_ROOT, capture_output=True, text=True, check=False)


def read_until(process: "subprocess.Popen[str]", sign: str) -> list[str]:
    """Lines of standard output up to the one with `sign`; fails with them when the process ends first."""
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip())
        if sign in line:
            return lines
    raise AssertionError("\n".join(["up ended early:", *lines]))


@pytest.fixture
def free_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYRE_WEB_PORT", str(ports.free_port()))
    monkeypatch.setenv("GYRE_PROXY_PORT", str(ports.free_port()))


def test_a_run_survives_kill_9_of_everything_and_once_ends_with_its_summary(home: Path, free_ports: None) -> None:
    assert manage("migrate", "-v0").returncode == 0
    launched = manage("launch", "--preset", "quickstart", "--seed", "3", *(f"--set={item}" for item in SMALL))
    assert launched.returncode == 0, launched.stderr
    run_id = int(launched.stdout)

    with up() as first:
        lines = read_until(first, "goes on from step")
        assert sum("Login, shown only once: admin / " in line for line in lines) == 1
        mine = record.read(home)
        assert mine is not None
        assert f"Dashboard: {mine.web}" in lines
        second = ask("up")
        assert second.returncode == 1
        assert f"already runs in {home} (pid {first.pid}" in second.stdout
        assert ask("status").returncode == 0
        database = Postgres(home).pid()
        assert database is not None
        os.kill(database, signal.SIGKILL)
        read_until(first, "Postgres had died and was started again")
        for pid in (first.pid, *record.marked(mine), Postgres(home).pid(), Valkey(home).pid()):
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
    down = ask("status")
    assert down.returncode == 3
    assert f"Gyre is not running here ({home}); start it with `make up`." in down.stdout

    with up(ONCE="1", SEED="3") as once:
        output, notices = once.communicate()
    assert once.returncode == 0, notices
    assert "Login" not in notices
    summary = json.loads(output.splitlines()[-1])
    assert (summary["run"], summary["seed"], summary["steps"]) == (run_id, 3, 1)
    assert summary["executions"] + summary["unresolved"] >= 4
    assert sum(summary["micro_steps"].values()) >= 1
    assert Postgres(home).pid() is None
    with embedded.servers() as urls, psycopg.connect(urls.database) as connection:
        assert connection.execute("SELECT state FROM agents_run WHERE id = %s", (run_id,)).fetchone() == ("finished",)


def test_stop_from_another_terminal_ends_everything(home: Path, free_ports: None) -> None:
    assert manage("migrate", "-v0").returncode == 0
    made = manage(
        "createsuperuser", "--noinput", "--username=jo", "--email=", DJANGO_SUPERUSER_PASSWORD="not-so-secret"
    )
    assert made.returncode == 0, made.stderr
    with up() as running:
        lines = read_until(running, "Dashboard:")
        assert "Login: jo (forgotten? .venv/bin/python manage.py changepassword jo)" in lines
        mine = record.read(home)
        assert mine is not None
        stopped = ask("stop")
        assert (stopped.returncode, stopped.stdout) == (0, "Gyre has stopped.\n")
        assert running.wait() == 0
    assert record.marked(mine) == []
    assert (Postgres(home).pid(), Valkey(home).pid()) == (None, None)
    assert ask("stop").stdout == "Gyre was not running.\n"


def test_a_taken_dashboard_port_is_named_with_its_variable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setenv("GYRE_WEB_PORT", str(port))
        refused = ask("up")
    assert refused.returncode == 1
    assert refused.stdout.startswith(
        f"gyre: port {port} for the dashboard is taken by another program. Set GYRE_WEB_PORT"
    )
    assert Postgres(home).pid() is None


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PRESET", "nope", "gyre: PRESET: 'nope' is unknown; known presets: "),
        ("SEED", "two", "gyre: SEED='two' is not a whole number"),
        ("SEED", "-1", "gyre: SEED: Input should be greater than or equal to 0 (got -1)"),
    ],
)
def test_a_preset_or_seed_that_cannot_be_used_is_refused_before_anything_starts(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    refused = ask("up")
    assert refused.returncode == 1
    assert (refused.stdout + refused.stderr).startswith(message)
    assert not home.exists()


def test_make_status_is_no_error_when_nothing_runs(home: Path) -> None:
    python = f"VENV_PYTHON={sys.executable}"
    done = subprocess.run(
        ["make", "-s", "status", python], cwd=env.REPO_ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_clean_data_asks_before_it_deletes(home: Path) -> None:
    with embedded.servers():
        busy = ask("clean-data")
        assert busy.returncode == 1
        assert "something still uses" in busy.stderr
    assert "set YES=1" in ask("clean-data").stderr
    assert (home / "postgres").exists()
