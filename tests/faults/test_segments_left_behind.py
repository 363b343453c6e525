"""Shared memory of killed engines is removed by the next cell host; what is in use, young or somebody else's stays."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainers.launch import segments

#: Makes a segment as an engine does, and stays.
ENGINE = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(file, 4096)
memory = mmap.mmap(file, 4096)
os.close(file)
print("mapped", flush=True)
sys.stdin.read()
"""
OLD = (0, 0)


@pytest.fixture
def engines() -> Iterator[list["subprocess.Popen[str]"]]:
    found: list[subprocess.Popen[str]] = []
    yield found
    for engine in found:
        with engine:
            engine.kill()


def start(engines: list["subprocess.Popen[str]"], segment: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", ENGINE, str(segment)]
    engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    engines.append(engine)
    assert engine.stdout is not None
    assert engine.stdout.readline() == "mapped\n"
    os.utime(segment, OLD)
    return engine


def test_a_killed_engines_segments_are_removed_and_a_living_ones_stay(
    tmp_path: Path, engines: list["subprocess.Popen[str]"]
) -> None:
    dead, alive = (tmp_path / f"sglang_loads_{digit * 12}_{digit * 8}.shm" for digit in "ab")
    killed = start(engines, dead)
    start(engines, alive)
    assert segments.clear(tmp_path) == []
    killed.kill()
    killed.wait()
    assert segments.clear(tmp_path) == [dead.name]
    assert alive.exists()


def test_what_is_young_or_has_another_name_stays(tmp_path: Path) -> None:
    young, old, other = (tmp_path / name for name in ("torch_7_8_1", "torch_7_9_1", "psm_0011aabb"))
    for path in (young, old, other):
        path.touch()
    for path in (old, other):
        os.utime(path, OLD)
    assert segments.clear(tmp_path) == [old.name]
    assert (young.exists(), other.exists()) == (True, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_another_user_stays(tmp_path: Path) -> None:
    (theirs := tmp_path / "torch_7_8_1").touch()
    os.utime(theirs, OLD)
    os.chown(theirs, 12345, 12345)
    assert segments.clear(tmp_path) == []
