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
    return run([str(HERE / "plays_fixtures.py"), str(home), *TASKS], home, uid)


def run(script: list[str], home: Path, uid: int | None) -> dict[str, list[object]]:
    """What the script prints last, as JSON, when this user runs it."""
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


@pytest.mark.parametrize("uid", [THROWAWAY_UID, None], ids=["normal user", "present user"])
def test_what_an_agent_left_is_kept_and_comes_back_as_it_was(open_directory: Path, uid: int | None) -> None:
    if uid is not None and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    home = open_directory / "home"
    home.mkdir(mode=0o700)
    if uid is not None:
        os.chown(home, uid, uid)
    found = run([str(HERE / "packs_a_tree.py"), str(home)], home, uid)
    assert found["before"] == found["after"]
    assert len(found["after"][b"app".hex()][2]) == 9
    assert (found["verify"], found["left"]) == (False, [])
