"""Which tier a test belongs to, and so what it may need. `-m core` needs no server and ends within seconds.

A tier goes by folder or file, or by a mark in the module that names another; a test of `core` or `simulation` that asks
for the database is of the tier `database`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

TIERS = {
    "core": "no server: values in, values out",
    "simulation": "no server either, but whole simulated runs, captures and commands: minutes",
    "database": "Postgres and Valkey, and processes of ours that need them",
    "sandbox": "bubblewrap, harnesses and the quickstart policy",
    "cells": "torch, engines and whole runs on this machine",
    "browser": "a browser on the dashboard",
    "platform": "set-up, supervisor and embedded servers",
    "faults": "injected faults and attacks, with whole processes",
}
FOLDERS = {
    **dict.fromkeys(("architecture", "core", "scheduler"), "core"),
    **dict.fromkeys(("actions", "api", "client", "exports", "ledger", "live", "processor", "proxy", "web"), "core"),
    **dict.fromkeys(("simulate", "simulations", "traffic", "whatif"), "simulation"),
    **dict.fromkeys(("bench", "harness", "harness_programs", "policy"), "sandbox"),
    **dict.fromkeys(("integration", "runs", "trainer"), "cells"),
    "e2e": "browser",
    "platform": "platform",
    **dict.fromkeys(("faults", "security"), "faults"),
}
#: Files that need servers in folders of `core`, and that take long only to be read: `-m core` leaves them alone.
FILES = dict.fromkeys(("api/test_schemathesis.py", "proxy/dialects/test_conformance.py"), "database")
#: Seconds that a test of these tiers may take, fixtures included; `timeout` in pyproject.toml bounds all others.
LONGER_S = dict.fromkeys(("cells", "platform", "faults"), 900)
WITHOUT_SERVERS = ("core", "simulation")
SERVER_FIXTURES = {"db", "transactional_db", "database_url"}


def give_tier(item: pytest.Item) -> None:
    """Mark `item` with its tier. A test that no tier claims fails the collection."""
    home = _tier_of_place(item.path, item.config)
    if home is None:
        folder = _folder(item.path, item.config)
        raise pytest.UsageError(f"tests/{folder or item.path.name} belongs to no tier: name it in tests/tiers.py")
    tier = next((mark.name for mark in item.iter_markers() if mark.name in TIERS), home)
    if tier in WITHOUT_SERVERS and _asks_for_servers(item):
        tier = "database"
    item.add_marker(tier)
    item.user_properties.append(("tier", tier))
    if tier in LONGER_S and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(LONGER_S[tier]))


def _asks_for_servers(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    return not SERVER_FIXTURES.isdisjoint(fixtures) or item.get_closest_marker("django_db") is not None


def needs_no_servers(config: pytest.Config) -> bool:
    """Whether only a tier without servers is asked for."""
    return config.known_args_namespace.markexpr.strip() in WITHOUT_SERVERS


def holds_other_tiers_only(path: Path, config: pytest.Config) -> bool:
    """Whether only tests without servers are asked for and the tier of `path`, file or folder, has servers."""
    return needs_no_servers(config) and (_tier_of_place(path, config) or "core") not in WITHOUT_SERVERS


def _tier_of_place(path: Path, config: pytest.Config) -> str | None:
    tests = config.rootpath / "tests"
    inside = path.relative_to(tests).as_posix() if path.is_relative_to(tests) else ""
    return FILES.get(inside) or FOLDERS.get(_folder(path, config))


def _folder(path: Path, config: pytest.Config) -> str:
    """The folder of `tests/` that `path` is or lies in, or ""."""
    tests = config.rootpath / "tests"
    inside = path.relative_to(tests).parts if path.is_relative_to(tests) else ()
    return inside[0] if inside and (tests / inside[0]).is_dir() else ""


def seconds_by_tier(reports: Iterable[object]) -> dict[str, float]:
    """How long the tests of each tier took, fixtures included, most first."""
    spent: Counter[str] = Counter()
    for report in reports:
        if isinstance(report, pytest.TestReport):
            spent[dict(report.user_properties)["tier"]] += report.duration
    return dict(spent.most_common())
