"""What an installation can set is written down."""

import re

from sources import text_of, tracked_files

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
