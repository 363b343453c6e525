"""The cell host with small bodies in place of agent and engine: who dies with whom."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from operator import not_
from pathlib import Path

import pytest

from tests.support.waiting import wait_for
from trainers.launch import processes, wire
from trainers.launch.host import Host
from trainers.launch.launchers import Launch, LauncherError, launcher


def _sleep(*_: object) -> int:
    while True:
        signal.pause()


def _ends(pid: int) -> None:
    wait_for(lambda: processes.alive(pid), f"process {pid} ends", until=not_)


def _listens(home: Path) -> None:
    wait_for(wire.socket_path(home).exists, "the host listens")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A served host in a child process, under a folder too deep for a socket's address."""
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    pid = processes.fork_child("host under test", deep / "host.log", lambda: Host(deep, _sleep, _sleep).serve() or 0)
    _listens(deep)
    yield deep
    processes.end_group(pid, grace_s=20)
    assert not wire.socket_path(deep).exists()


def _agents(home: Path) -> list[dict[str, int]]:
    cells: list[dict[str, int]] = wire.ask(home, {"op": "list"})["cells"]
    return cells


def test_an_engine_dies_with_its_agent(home: Path) -> None:
    launcher("local", home).launch([Launch(7, 0, 1)])
    [agent] = _agents(home)
    engine = wire.ask(home, {"op": "engine", "owner_pid": agent["pid"], "arguments": []})["pid"]
    assert processes.alive(engine)
    os.kill(agent["pid"], signal.SIGKILL)
    _ends(engine)
    assert not _agents(home)


def test_a_newer_epoch_replaces_an_older_one_and_never_the_other_way(home: Path) -> None:
    local = launcher("local", home)
    assert local.launch([Launch(7, 0, 2), Launch(7, 1, 2)]) == {}
    first = _agents(home)[0]["pid"]
    assert "already runs in epoch 2" in local.launch([Launch(7, 0, 1)])[0]
    assert local.launch([Launch(7, 0, 3)]) == {}
    assert local.running(7) == {0: 3, 1: 2}
    assert local.running(8) == {}
    _ends(first)


def test_a_stopped_run_leaves_the_others_alone(home: Path) -> None:
    local = launcher("local", home)
    local.launch([Launch(7, 0, 1), Launch(8, 0, 1)])
    local.stop(7)
    assert local.running(7) == {}
    assert local.running(8) == {0: 1}


def test_children_die_with_a_host_that_is_killed(tmp_path: Path) -> None:
    host = processes.fork_child("host", tmp_path / "host.log", lambda: Host(tmp_path, _sleep, _sleep).serve() or 0)
    _listens(tmp_path)
    launcher("local", tmp_path).launch([Launch(7, 0, 1)])
    [agent] = _agents(tmp_path)
    os.kill(host, signal.SIGKILL)
    processes.end_group(host)
    _ends(agent["pid"])


def test_a_stranger_gets_no_engine_and_nonsense_an_answer(home: Path) -> None:
    with pytest.raises(wire.HostRefused, match="no agent of this host"):
        wire.ask(home, {"op": "engine", "owner_pid": os.getpid(), "arguments": []})
    with pytest.raises(wire.HostRefused, match="unknown operation"):
        wire.ask(home, {"op": "dance"})


def test_a_missing_host_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(LauncherError, match="does not answer on"):
        launcher("local", tmp_path).running(1)
    with pytest.raises(LauncherError, match="known: local"):
        launcher("moon", tmp_path)


def test_a_child_that_is_asked_to_end_again_and_again_leaves_the_host_and_its_siblings_alone(tmp_path: Path) -> None:
    def stubborn(*_: object) -> int:
        """Each SIGTERM raises, also while an earlier one is handled."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            return _sleep()
        except SystemExit:
            time.sleep(0.05)
            raise

    def serve() -> int:
        Host(tmp_path, stubborn, _sleep).serve()
        return 0

    host = processes.fork_child("host", tmp_path / "host.log", serve)
    try:
        _listens(tmp_path)
        local = launcher("local", tmp_path)
        local.launch([Launch(7, 0, 1), Launch(7, 1, 1)])
        noisy, quiet = (agent["pid"] for agent in _agents(tmp_path))

        def asked_to_end() -> bool:
            with suppress(ProcessLookupError):
                os.kill(noisy, signal.SIGTERM)
            return processes.alive(noisy)

        wait_for(asked_to_end, "it ends", until=not_, poll_s=0)
        wait_for(lambda: local.running(7), "the host has lost it", until=lambda left: left == {1: 1})
        assert processes.alive(quiet)
    finally:
        processes.end_group(host, grace_s=20)
