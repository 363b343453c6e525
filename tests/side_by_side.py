"""How `pytest -n` deals tests out to processes that work side by side: file by file, what takes long first.

Files that share what takes long to start, such as a Gyre of their own, stay together in one process.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

#: Folders whose files share something that lives until the last of them is done.
TOGETHER = ("tests/runs/", "tests/integration/")
#: Tiers with the longest files first, so that no process is left alone with one at the end.
ORDER = ("cells", "platform", "faults", "browser", "sandbox", "database", "simulation", "core")


def is_one_of_several() -> bool:
    """Whether this process runs a part of the tests, beside others."""
    return "PYTEST_XDIST_WORKER" in os.environ


def deals_out(config: pytest.Config) -> bool:
    """Whether this process runs no test itself, but has others run them."""
    return bool(config.known_args_namespace.numprocesses) and not is_one_of_several()


def unit(nodeid: str) -> str:
    """What stays in one process with a test: its file, or its folder."""
    file = nodeid.split("::", 1)[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def refuse_twins(items: list[pytest.Item]) -> None:
    """Fail the collection where tests have one id: of those, only one would be dealt out."""
    ids = Counter(item.nodeid for item in items)
    if twins := [nodeid for nodeid, times in ids.items() if times > 1]:
        raise pytest.UsageError(f"several tests have the id {', '.join(twins)}")


def turn(item: pytest.Item) -> int:
    """When a test's turn comes. A unit is dealt out when the turn of its first test comes."""
    return ORDER.index(dict(item.user_properties)["tier"])


class Scheduling(LoadScopeScheduling):
    """Deals out units in the order in which their first tests were collected."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # would put units of many tests first, whatever they take

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
