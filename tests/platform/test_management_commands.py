"""`manage.py` starts what a command needs, and says in one line what is wrong."""

import os
import shutil
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


def manage_without_packages(checkout: Path) -> subprocess.CompletedProcess[str]:
    """`manage.py version` in a checkout with only that file, by a Python that sees no installed package."""
    shutil.copy(env.REPO_ROOT / "manage.py", checkout)
    return subprocess.run(
        [sys.executable, "-S", str(checkout / "manage.py"), "version"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(env.REPO_ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_python_without_the_packages_goes_on_in_the_virtual_environment(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    done = manage_without_packages(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("5.2.")


@pytest.mark.parametrize("with_empty_venv", [False, True])
def test_where_the_packages_are_nowhere_the_set_up_is_asked_for(tmp_path: Path, with_empty_venv: bool) -> None:
    if with_empty_venv:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    done = manage_without_packages(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Gyre is not set up here: run `make setup` first\n"
