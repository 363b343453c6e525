"""The ports that engines and weight transfers open cannot be reached from outside of the cells' own network."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agents.proxy.door import fresh_socket
from gyreweb import embedded, env, reach
from gyreweb.supervisor import cellnetwork
from gyreweb.supervisor.errors import CannotStart
from tests.support.waiting import wait_for
from trainers.launch import enclosure

#: The real transfer engine with a registered buffer, and the store that an engine's processes meet at.
LISTENERS = """
import json, os, sys, warnings
from pathlib import Path
import torch
from trainers.cell.transfer.endpoint import Endpoint
endpoint = Endpoint()
endpoint.register(torch.ones(1 << 20, dtype=torch.uint8))
store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
Path("/dev/shm/gyre-left-behind").write_bytes(b"weights")
listening = []
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        if state == "0A":
            address, port = local.split(":")
            listening.append([set(address) == {"0"}, int(port, 16)])
found = {"pid": os.getpid(), "listening": listening, "store": store.port, "memory": os.listdir("/dev/shm")}
print(json.dumps(found), flush=True)
sys.stdin.read()
"""
URLS = embedded.Urls("postgresql://x", "redis://x", database_socket="postgresql:///x?host=/x")


@pytest.fixture(scope="module")
def prefix() -> tuple[str, ...]:
    found, why = enclosure.find_prefix()
    if not found:
        pytest.skip(f"no network namespace can be made here: {why}")
    return found


@pytest.fixture
def cells(prefix: tuple[str, ...], tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """What listens in a cell, enclosed as `make up` does it."""
    command = cellnetwork.CellNetwork(prefix).enclosed((sys.executable, "-c", LISTENERS))
    (tmp_path / "run").mkdir()
    with subprocess.Popen(
        command, cwd=env.REPO_ROOT, env=os.environ | {"GYRE_HOME": str(tmp_path)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        yield process
        process.kill()


def answer(process: "subprocess.Popen[str]") -> dict[str, object]:
    assert process.stdout is not None
    found: dict[str, object] = json.loads(next(line for line in process.stdout if line.startswith("{")))
    return found


def addresses() -> list[str]:
    """Every IPv4 address of this machine, loopback included."""
    found = (entry for interface in psutil.net_if_addrs().values() for entry in interface)
    return [entry.address for entry in found if entry.family == socket.AF_INET]


def test_buffers_and_stores_are_reached_through_the_door_and_from_no_address_of_this_machine(
    cells: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    found = answer(cells)
    listening = found["listening"]
    assert isinstance(listening, list)
    open_to_all = [port for everywhere, port in listening if everywhere]
    assert found["store"] in open_to_all
    assert len(open_to_all) >= 3, "Mooncake's two listeners and the store bind all interfaces"
    for _, port in listening:
        for address in addresses():
            with socket.socket() as outside:
                outside.settimeout(2)
                assert outside.connect_ex((address, port)) != 0, f"{address}:{port} can be reached"
        with fresh_socket(enclosure.socket_path(tmp_path)) as inside:
            inside.settimeout(5)
            inside.connect(("127.0.0.1", port))
    with fresh_socket(enclosure.socket_path(tmp_path)) as inside, pytest.raises(OSError, match="unreachable"):
        inside.connect(("192.0.2.1", 80))
    assert not Path("/dev/shm/gyre-left-behind").exists()


def test_ports_door_and_shared_memory_are_gone_after_kill_9(cells: "subprocess.Popen[str]", tmp_path: Path) -> None:
    found = answer(cells)
    assert found["pid"] == cells.pid
    memory = found["memory"]
    assert isinstance(memory, list)
    assert "gyre-left-behind" in memory
    cells.kill()
    cells.wait()

    def closed() -> bool:
        try:
            fresh_socket(enclosure.socket_path(tmp_path)).close()
        except OSError:
            return True
        return False

    wait_for(closed, "the door is closed")
    assert set(os.listdir("/dev/shm")).isdisjoint(memory)


@pytest.mark.parametrize("namespaces", enclosure.PREFIXES, ids=["as root", "in a user namespace"])
def test_nothing_but_loopback_leads_into_the_cells_network(
    prefix: tuple[str, ...], namespaces: tuple[str, ...], tmp_path: Path
) -> None:
    if os.geteuid() and "--user" not in namespaces:
        pytest.skip("only root makes namespaces directly")
    (tmp_path / "run").mkdir()
    look = "import os, psutil; up = [name for name, at in psutil.net_if_stats().items() if at.isup]"
    look += "; print(up, os.listdir('/dev/shm'))"
    done = subprocess.run(
        cellnetwork.CellNetwork(namespaces).enclosed((sys.executable, "-c", look)), cwd=env.REPO_ROOT,
        env=os.environ | {"GYRE_HOME": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "['lo'] []\n"


def test_only_the_owner_may_ask_for_sockets(cells: "subprocess.Popen[str]", tmp_path: Path) -> None:
    answer(cells)
    assert enclosure.socket_path(tmp_path).stat().st_mode & 0o777 == 0o600


def test_the_processes_of_make_up_are_enclosed(prefix: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cellnetwork.VARIABLE, raising=False)
    chosen = cellnetwork.choose(URLS, print)
    assert chosen.enclosed(("x",))[: len(prefix)] == prefix
    assert chosen.for_cells() == {"DATABASE_URL": URLS.database_socket}


def test_a_machine_with_a_public_address_is_refused_where_ports_would_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(enclosure, "PREFIXES", (("false",),))
    monkeypatch.delenv(cellnetwork.VARIABLE, raising=False)
    monkeypatch.setattr(reach, "public_addresses", lambda: ["203.0.113.7"])
    with pytest.raises(CannotStart, match=r"public address \(203\.0\.113\.7\).*set GYRE_CELL_NETWORK=shared"):
        cellnetwork.choose(URLS, said.append)
    monkeypatch.setenv(cellnetwork.VARIABLE, "shared")
    assert cellnetwork.choose(URLS, said.append) == cellnetwork.SHARED
    assert said == []
    monkeypatch.delenv(cellnetwork.VARIABLE)
    monkeypatch.setattr(reach, "public_addresses", lambda: [])
    assert cellnetwork.choose(URLS, said.append) == cellnetwork.SHARED
    assert "listen on all interfaces of this machine, without a secret; keep a firewall before it" in said[0]
    monkeypatch.setenv(cellnetwork.VARIABLE, "private")
    with pytest.raises(CannotStart, match="cannot have a network of their own"):
        cellnetwork.choose(URLS, said.append)
    monkeypatch.setenv(cellnetwork.VARIABLE, "none")
    with pytest.raises(env.BadEnvironment, match="GYRE_CELL_NETWORK='none' is not one of private, shared"):
        cellnetwork.choose(URLS, said.append)


def test_a_database_without_a_socket_cannot_be_reached_from_the_cells_own_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.delenv(cellnetwork.VARIABLE, raising=False)
    monkeypatch.setattr(reach, "public_addresses", lambda: [])
    assert cellnetwork.choose(embedded.Urls("postgresql://elsewhere/x", "redis://x"), said.append).prefix == ()
    assert "the database has no unix socket" in said[0]
