"""What an installation can set is written down, and checked before anything starts."""

import re

import pytest
from sources import text_of, tracked_files

from gyreweb import variables

#: Between our own processes; nobody sets them.
INTERNAL = {"GYRE_SUPERVISOR_TOKEN"}
READERS = ("gyreweb/settings.py", "gyreweb/env.py", "gyreweb/embedded/", "gyreweb/setup/", "gyreweb/supervisor/")


def test_every_environment_variable_of_the_installation_is_in_the_configuration_page() -> None:
    documented = next(text_of(path) for path in tracked_files() if str(path) == "docs/configuration.md")
    read = {
        variable
        for path in tracked_files()
        if str(path).startswith(READERS)
        for variable in re.findall(r"\bGYRE_[A-Z_]+\b", text_of(path))
    }
    assert {variable for variable in read - INTERNAL if f"`{variable}`" not in documented} == set()


#: Any text will do, or whoever needs it says at once what is wrong with it: folder, addresses, names, secrets.
FREE_TEXT = {
    "GYRE_HOME", "GYRE_HOST", "GYRE_ALLOWED_HOSTS", "GYRE_TRUSTED_ORIGINS", "GYRE_SECRET_KEY", "GYRE_PROXY_NAME",
    "GYRE_TORCH_INDEX",
}  # fmt: skip


def test_every_variable_with_a_form_is_checked_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    page = next(text_of(path) for path in tracked_files() if str(path) == "docs/configuration.md")
    documented = set(re.findall(r"\bGYRE_[A-Z_]+\b", page))
    assert documented >= FREE_TEXT
    for variable in documented - FREE_TEXT:
        monkeypatch.setenv(variable, "no such thing")
    monkeypatch.setattr("os.geteuid", lambda: 0)  # only root gives sandboxes a user
    problems = "\n".join(variables.problems())
    assert {variable for variable in documented - FREE_TEXT if f"{variable}=" not in problems} == set()
