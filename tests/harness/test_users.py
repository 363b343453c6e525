"""Sandboxes work for root and for a normal user, below directories of mode 0700."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REPO = HERE.parents[1]
TASKS = ["hello", "sep", "leftover"]
THROWAWAY_UID = 64_321


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user may pass."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o711)
    yield place
    shutil.rmtree(place)


def play(home: Path, uid: int | None) -> dict[str, list[object]]:
    script = [str(HERE / "plays_fixtures.py"), str(home), *TASKS]
    command = [sys.executable, *script]
    if uid is not None:
        command = [sys.executable, str(HERE / "normal_user.py"), str(uid), *script]
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(REPO), "PYTHONDONTWRITEBYTECODE": "1", "NORMAL_HOME": str(home),
    }  # fmt: skip
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def expected(owner: int) -> dict[str, list[object]]:
    return {"hello": ["scored", 1.0, owner], "sep": ["scored", 1.0, owner], "leftover": ["scored", 0.0, owner]}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_normal_user_can_run_sandboxes(open_directory: Path) -> None:
    home = open_directory / "home"
    home.mkdir(mode=0o700)
    os.chown(home, THROWAWAY_UID, THROWAWAY_UID)
    assert play(home, THROWAWAY_UID) == expected(THROWAWAY_UID)


def test_the_present_user_can_run_sandboxes_in_a_closed_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    owner = int(os.environ.get("GYRE_SANDBOX_UID", 65_530)) if os.geteuid() == 0 else os.geteuid()
    assert play(home, None) == expected(owner)
