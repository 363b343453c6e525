"""`manage.py doctor` names what is missing and what to do."""

import socket
from pathlib import Path

import pytest
from test_management_commands import manage

from gyreweb import doctor
from gyreweb.setup import system
from gyreweb.setup.errors import SetupFailed

ABSENT = system.SystemPackage("no-such-package", "nothing", lambda: False)


def test_this_machine_passes_or_gets_a_remedy_for_every_fault(home: Path) -> None:
    findings = list(doctor.examine())
    named = {"python", "sandbox", "Postgres and Valkey", "GYRE_HOME", "dashboard", "network of the cells"}
    assert named <= {f.subject for f in findings}
    assert [f for f in findings if f.level is doctor.Level.MISSING and not f.remedy] == []


def test_a_taken_port_is_a_fault_with_its_variable(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = manage("doctor", GYRE_WEB_PORT=str(port))
    assert done.returncode == 1
    assert f"MISSING GYRE_WEB_PORT: {port} is taken" in done.stdout
    assert "→ set GYRE_WEB_PORT to a free port" in done.stdout


def test_a_missing_system_package_is_answered_with_the_line_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no apt-get, as on another distribution
    with pytest.raises(SetupFailed, match=r"(?s)no-such-package: nothing\n.*apt-get install -y .*no-such-package"):
        system.require([ABSENT], print)


def test_what_others_can_reach_is_said(home: Path) -> None:
    done = manage("doctor", GYRE_HOST="0.0.0.0", GYRE_HTTPS="1", GYRE_CELL_NETWORK="shared")
    assert done.returncode == 1
    assert "MISSING dashboard: GYRE_HOST=0.0.0.0 " in done.stdout
    assert "warning network of the cells: shared by GYRE_CELL_NETWORK" in done.stdout
