"""Folders and variables that people really set wrongly: one clear sentence, no traceback, and nothing ends for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gyreweb import env, homefolder
from gyreweb.embedded import ports
from tests.faults.test_disk_full import cannot_mount

SUPERVISOR = ("-m", "gyreweb.supervisor", "up")
CLEAN = ("-m", "gyreweb.supervisor", "clean-data")
WORKER = ("-m", "celery", "-A", "gyreweb.celery", "worker", "--pool", "solo")
MIGRATE = ("manage.py", "migrate")
WEB = ("-c", "import gyreweb.asgi")
PROXY = ("-m", "agents.proxy", "--database-url", "postgresql://nowhere")


def ended(arguments: tuple[str, ...], *prefix: str, **variables: str) -> str:
    """What a command says that must refuse to run."""
    own = ("DATABASE_URL", "REDIS_URL", "GYRE_HTTPS")
    done = subprocess.run(
        [*prefix, sys.executable, *arguments],
        cwd=env.REPO_ROOT,
        env={name: value for name, value in os.environ.items() if name not in own} | variables,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("command", [SUPERVISOR, MIGRATE, WEB], ids=["up", "manage", "web"])
def test_a_home_that_is_a_file_is_named(command: tuple[str, ...], tmp_path: Path) -> None:
    (file := tmp_path / "file").touch()
    for home in (file, file / "below"):
        said = ended(command, GYRE_HOME=str(home), GYRE_HTTPS="0")
        assert f"cannot write to {home} (GYRE_HOME): it is a file, or lies below one. Set GYRE_HOME to" in said


def test_commands_that_only_look_or_delete_name_a_home_that_is_a_file(tmp_path: Path) -> None:
    (file := tmp_path / "file").write_text("dear")
    home = str(file)
    assert "is a file, not a folder of Gyre's" in ended(CLEAN, GYRE_HOME=home, YES="1")
    assert "GYRE_HOME must be a folder that can be written" in ended(PROXY, GYRE_HOME=home, GYRE_PROXY_PORT="0")
    assert "cannot write to" in ended(WORKER, GYRE_HOME=home)
    assert file.read_text() == "dear"


@pytest.mark.parametrize("command", [SUPERVISOR, MIGRATE, WEB], ids=["up", "manage", "web"])
def test_a_home_on_a_read_only_disk_is_named(command: tuple[str, ...], tmp_path: Path) -> None:
    if problem := cannot_mount():
        pytest.skip(problem)
    (full := tmp_path / "full" / "run").mkdir(parents=True)
    (empty := tmp_path / "empty").mkdir()
    read_only = 'mount -t tmpfs -o ro tmpfs "$1"; mount --bind "$2" "$2"; mount -o remount,ro,bind "$2"; shift 2; "$@"'
    prefix = ("unshare", "--mount", "--propagation", "private", "--", "sh", "-c", read_only, "sh")
    for home in (empty, full.parent):
        said = ended(command, *prefix, str(empty), str(full.parent), GYRE_HOME=str(home), GYRE_HTTPS="0")
        assert f"cannot write to {home} (GYRE_HOME): " in said
        assert "Set GYRE_HOME to a folder of your own" in said


@pytest.mark.parametrize(
    ("command", "variable", "value", "message"),
    [
        (SUPERVISOR, "GYRE_WEB_PORT", "99999", "GYRE_WEB_PORT=99999 must be between 1 and 65535"),
        (SUPERVISOR, "GYRE_PROXY_PORT", "0", "GYRE_PROXY_PORT=0 must be between 1 and 65535"),
        (SUPERVISOR, "GYRE_PROXY_PORT", "１２", "GYRE_PROXY_PORT='１２' is not a whole number"),
        (SUPERVISOR, "GYRE_WEB_PORT", "8_700", "GYRE_WEB_PORT='8_700' is not a whole number"),
        (SUPERVISOR, "GYRE_HOST", "no.such.host.invalid", "GYRE_HOST='no.such.host.invalid' is no address of this"),
        (SUPERVISOR, "GYRE_HOST", "192.0.2.1", "GYRE_HOST='192.0.2.1' is no address of this machine"),
        (MIGRATE, "GYRE_PG_PORT", "70000", "GYRE_PG_PORT=70000 must be between 1 and 65535"),
        (MIGRATE, "GYRE_VALKEY_PORT", "-1", "GYRE_VALKEY_PORT=-1 must be between 1 and 65535"),
        (WEB, "GYRE_WEB_PORT", "99999", "GYRE_WEB_PORT=99999 must be between 1 and 65535"),
        (WEB, "GYRE_DB_POOL_SIZE", "-2", "GYRE_DB_POOL_SIZE=-2 must be at least 0"),
        (WEB, "GYRE_MIN_FREE_MB", "0", "GYRE_MIN_FREE_MB=0 must be at least 1"),
        (SUPERVISOR, "GYRE_PROXIES", "65", "GYRE_PROXIES=65 must be between 1 and 64"),
        (SUPERVISOR, "GYRE_CELL_NETWORK", "own", "GYRE_CELL_NETWORK='own' is not one of private, shared"),
        (SUPERVISOR, "GYRE_PROXY_IDLE_TOKEN_S", "1e3", "GYRE_PROXY_IDLE_TOKEN_S='1e3' is not a number of seconds"),
        (SUPERVISOR, "GYRE_LOG_LEVEL", "loud", "GYRE_LOG_LEVEL='LOUD' is not one of DEBUG, INFO"),
        (SUPERVISOR, "GYRE_DEBUG", "maybe", "GYRE_DEBUG='maybe' is not one of 0, 1"),
        (PROXY, "GYRE_PROXY_PORT", "99999", "127.0.0.1:99999 cannot be taken"),
        (PROXY, "GYRE_PROXY_PORT", "web", "argument --port: invalid int value: 'web'"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_its_variable(
    command: tuple[str, ...], variable: str, value: str, message: str, tmp_path: Path
) -> None:
    assert message in ended(command, GYRE_HOME=str(tmp_path / "home"), **{variable: value})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives sandboxes a user of their own")
@pytest.mark.parametrize("value", ["abc", "0", "-1", "４", "4294967295", "1_000"])
def test_a_sandbox_user_that_cannot_be_is_named(value: str, tmp_path: Path) -> None:
    said = ended(SUPERVISOR, GYRE_HOME=str(tmp_path / "home"), GYRE_SANDBOX_UID=value)
    assert f"GYRE_SANDBOX_UID={value!r} is no number of an unprivileged user" in said


@pytest.mark.parametrize("command", [SUPERVISOR, MIGRATE, WEB, WORKER], ids=["up", "manage", "web", "worker"])
def test_a_home_whose_name_is_too_long_for_sockets_is_named_before_anything_starts(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    home = tmp_path / ("x" * 120)
    assert "(GYRE_HOME) is too long by" in ended(command, GYRE_HOME=str(home), GYRE_HTTPS="0")
    assert not home.exists()


@pytest.mark.parametrize("others", ["GYRE_PROXY_PORT", "GYRE_PG_PORT", "GYRE_VALKEY_PORT"])
def test_two_processes_on_one_port_are_refused(others: str, tmp_path: Path) -> None:
    port = str(ports.free_port())
    ours = {"GYRE_PROXY_PORT": str(ports.free_port()), "GYRE_WEB_PORT": port} | {others: port}
    said = ended(SUPERVISOR, GYRE_HOME=str(tmp_path / "home"), **ours)
    assert f"GYRE_WEB_PORT and {others} both lead to port {port}" in said


def test_plain_http_that_others_can_listen_to_is_refused_unless_it_is_wanted(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    for command, https in ((SUPERVISOR, ""), (SUPERVISOR, "0"), (SUPERVISOR, "1"), (WEB, "0")):
        said = ended(command, GYRE_HOME=home, GYRE_HOST="0.0.0.0", GYRE_HTTPS=https)
        assert "GYRE_HOST=0.0.0.0 can be reached from other machines, and passwords would go over plain http" in said
        assert "set GYRE_PLAIN_HTTP=1" in said
    for wanted in ({"GYRE_PLAIN_HTTP": "1"}, {"GYRE_HTTPS": "1"}, {"GYRE_HOST": "127.0.0.2"}):
        variables = {"GYRE_HOME": home, "GYRE_HOST": "0.0.0.0", "GYRE_HTTPS": "0"} | wanted
        subprocess.run([sys.executable, *WEB], cwd=env.REPO_ROOT, env=os.environ | variables, check=True)


def test_a_home_that_is_ours_is_closed_to_others_and_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    ours, theirs, new = tmp_path / "ours", tmp_path / "theirs", tmp_path / "parent" / "new"
    for folder, entry in ((ours, "logs"), (theirs, "letters")):
        (folder / entry).mkdir(parents=True)
        folder.chmod(0o755)
    for folder in (ours, theirs, new):
        homefolder.prepared(folder)
    modes = [path.stat().st_mode & 0o777 for path in (ours, theirs, new, theirs / "run")]
    assert modes == [0o700, 0o755, 0o700, 0o700]
