"""A disk that is really full: a small file system in a mount namespace, with Postgres and every folder on it."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from agents.room import DEFAULT_MIN_FREE_MB, HYSTERESIS, MIN_FREE_FILES, Free, Level, level_of
from gyreweb.env import REPO_ROOT

NAMESPACE = ("unshare", "--mount", "--propagation", "private", "--")
#: Room for Postgres, its test database and one execution; low below 32 MB, critical below 16.
SIZE_MB, MIN_FREE_MB = 512, 32
MOUNTED = 'mount -t tmpfs -o mode=1777,size="$1"m tmpfs "$2" && shift 2 && exec "$@"'
MB = 1 << 20
INNER = "tests/faults/small_disk.py"
#: What this test process has set up for itself.
OWN = ("DATABASE_URL", "REDIS_URL", "GYRE_HOME", "DJANGO_SETTINGS_MODULE", "PYTEST_XDIST_WORKER")


@cache
def cannot_mount() -> str:
    """Why no file system can be mounted here; empty when it can."""
    probe = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no file system can be mounted here: {done.stderr.strip()}"


def test_runs_pause_and_go_on_and_postgres_lives_when_a_small_disk_fills_up(tmp_path: Path) -> None:
    if problem := cannot_mount():
        pytest.skip(problem)
    disk = next(path for path in (tmp_path, *tmp_path.parents) if len(str(path)) < 40)  # sockets need short names
    inner = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={disk}/t", INNER]
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", MOUNTED, "sh", str(SIZE_MB), disk, *inner],
        cwd=REPO_ROOT,
        env={
            **{name: value for name, value in os.environ.items() if name not in OWN},
            "TMPDIR": str(disk),
            "GYRE_MIN_FREE_MB": str(MIN_FREE_MB),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "4 passed" in done.stdout


def test_the_disk_of_the_database_counts_where_it_is_another_one(tmp_path: Path) -> None:
    if problem := cannot_mount():
        pytest.skip(problem)
    (tmp_path / "postgres").mkdir()
    measure = (
        "import sys; from agents.room import Gauge; from pathlib import Path; g = Gauge(Path(sys.argv[1])); g.measure()"
    )
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", MOUNTED, "sh", "8", tmp_path / "postgres", sys.executable, "-c",
         f"{measure}; print(g.level.name, g.message)", tmp_path],
        cwd=REPO_ROOT, env=os.environ | {"GYRE_MIN_FREE_MB": "10"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(f"LOW the disk is full: 8 MB free at {tmp_path / 'postgres'}; free some space: ")
    assert "once 20 MB are free" in done.stdout


@pytest.mark.parametrize(
    ("free_mb", "before", "after"),
    [
        (300, Level.ENOUGH, Level.ENOUGH),
        (255, Level.ENOUGH, Level.LOW),
        (300, Level.LOW, Level.LOW),
        (512, Level.LOW, Level.ENOUGH),
        (127, Level.ENOUGH, Level.CRITICAL),
        (255, Level.CRITICAL, Level.CRITICAL),
        (256, Level.CRITICAL, Level.LOW),
        (512, Level.CRITICAL, Level.ENOUGH),
    ],
)
def test_a_level_ends_at_twice_the_room_at_which_it_began(free_mb: int, before: Level, after: Level) -> None:
    free = Free(Path("/"), free_mb * MB, files=None)
    assert level_of(free, DEFAULT_MIN_FREE_MB * MB, before) is after


def test_a_file_system_without_free_file_entries_is_full() -> None:
    free = Free(Path("/"), 1 << 40, files=MIN_FREE_FILES - 1)
    assert level_of(free, DEFAULT_MIN_FREE_MB * MB, Level.ENOUGH) is Level.LOW
    plenty = Free(Path("/"), 1 << 40, files=HYSTERESIS * MIN_FREE_FILES)
    assert level_of(plenty, DEFAULT_MIN_FREE_MB * MB, Level.LOW) is Level.ENOUGH
