"""`manage.py` starts what a command needs, and says in one line what is wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gyreweb import env
from gyreweb.commandline import needs_servers
from gyreweb.embedded.postgres import Postgres


def manage(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=env.REPO_ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("migrate", True),
        ("-v 0 migrate", True),
        ("verify_run 1", True),
        ("verify_run --help", False),
        ("help migrate", False),
        ("--version", False),
        ("export_policy 1 --version 2", True),
        ("doctor", False),
        ("collectstatic --noinput", False),
        ("", False),
    ],
)
def test_only_commands_that_need_the_database_start_it(line: str, needed: bool) -> None:
    assert needs_servers(line.split()) is needed


def test_a_command_starts_and_stops_the_servers_by_itself(home: Path) -> None:
    empty = manage("shell", "-v0", "-c", "from agents.models import Run; Run.objects.count()")
    assert empty.returncode == 1
    assert empty.stderr.startswith("gyre: the database has no tables yet: run `.venv/bin/python manage.py migrate`")
    migrated = manage("migrate", "-v0")
    assert (migrated.returncode, migrated.stderr) == (0, "")
    counted = manage("shell", "-v0", "-c", "from agents.models import Run; print(Run.objects.count())")
    assert counted.stdout == "0\n"
    assert Postgres(home).pid() is None


def test_a_database_that_does_not_answer_is_named(home: Path) -> None:
    done = manage("showmigrations", DATABASE_URL="postgresql://gyre@127.0.0.1:1/gyre", REDIS_URL="redis://127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("gyre: the database does not answer (DATABASE_URL)")
    assert "Traceback" not in done.stderr
