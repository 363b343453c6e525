"""Which server and token the command uses, and how it keeps them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agents.models import Run
from tests.client.conftest import Gyre


def _kept(gyre: Gyre) -> Path:
    return gyre.home / ".config" / "gyre" / "login.json"


@pytest.fixture
def signed_in(gyre: Gyre) -> Gyre:
    """It has no environment, only what was kept."""
    done = gyre("login", gyre.variables["GYRE_URL"] + "/")
    assert done.code == 0, done.err
    return gyre


def _alone(gyre: Gyre) -> dict[str, str]:
    return {"GYRE_URL": "", "GYRE_TOKEN": ""}


def test_a_login_is_kept_for_its_owner_only_and_used(signed_in: Gyre, run: Run) -> None:
    kept = _kept(signed_in)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert [path.name for path in kept.parent.iterdir()] == ["login.json"]
    assert signed_in("list", "--json", **_alone(signed_in)).json[0]["id"] == run.pk


def test_the_environment_wins(signed_in: Gyre) -> None:
    assert signed_in("list", GYRE_URL="", GYRE_TOKEN="gyre_other").code == 7
    assert signed_in("list", GYRE_URL="http://127.0.0.1:1").code == 6


def test_a_kept_token_is_sent_to_no_other_server(signed_in: Gyre) -> None:
    done = signed_in("list", "--url", "http://127.0.0.1:1", **_alone(signed_in))
    assert (done.code, "there is no token for http://127.0.0.1:1" in done.err) == (7, True)


def test_a_token_that_does_not_work_is_not_kept(gyre: Gyre) -> None:
    assert gyre("login", gyre.variables["GYRE_URL"], GYRE_TOKEN="gyre_wrong").code == 7
    assert gyre("login", "http://127.0.0.1:1").code == 6
    assert gyre("login", "localhost:8700").code == 2
    assert gyre("login", gyre.variables["GYRE_URL"], GYRE_TOKEN="").code == 2  # standard input is empty
    assert not _kept(gyre).exists()


def test_logging_out_forgets_and_without_a_login_the_command_says_what_to_do(signed_in: Gyre) -> None:
    assert signed_in("logout", "--json").json == {"forgotten": True}
    assert not _kept(signed_in).exists()
    done = signed_in("list", **_alone(signed_in))
    assert (done.code, "`gyre login URL`" in done.err) == (2, True)


def test_a_damaged_login_is_named(signed_in: Gyre) -> None:
    _kept(signed_in).write_text("{")
    done = signed_in("list", **_alone(signed_in))
    assert (done.code, str(_kept(signed_in)) in done.err) == (2, True)
