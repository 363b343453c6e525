"""The stage for real harness programs: worker, sandboxes, proxy and rows are the product; the engine is scripted.

`make test-harnesses` installs the programs and plays every scene with each. Without it only those run that come with
Gyre.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.executions.worker import Worker
from agents.proxy.rendering import BUNDLED_POLICY
from tests.harness.conftest import SocketBackstage
from tests.harness_programs.relay import Relay
from tests.proxy.backstage import Loop

#: Set by `make test-harnesses`.
ALL = os.environ.get("GYRE_TEST_HARNESSES") == "1"
#: Installed programs outlive a test run.
CACHE = Path(os.environ.get("GYRE_TEST_HARNESS_HOME") or Path(__file__).parents[2] / "var") / "harnesses"
#: A folder for readable records of what was played.
DUMP = os.environ.get("GYRE_TEST_HARNESS_DUMP", "")
#: Delay of the slow first byte, in seconds.
SLOW_S = float(os.environ.get("GYRE_TEST_HARNESS_SLOW_S", "12"))


class Theatre(SocketBackstage):
    """A backstage whose proxy is reached through a relay that can cut connections."""

    relay: Relay


@pytest.fixture
def theatre(database_url: str, tmp_path: Path) -> Iterator[Theatre]:
    with contextlib.ExitStack() as stack:
        loop = Loop()
        stack.callback(loop.close)
        found = Theatre(database_url, stack, loop)
        found.socket_path = tmp_path / "proxy.sock"
        stack.callback(found.stop_proxy)
        found.start_proxy()
        found.relay = Relay(tmp_path / "relay.sock", found.socket_path)
        loop.call(found.relay.open())
        stack.callback(lambda: loop.call(found.relay.close()))
        yield found


@pytest.fixture
def troupe(theatre: Theatre, tmp_path: Path) -> Iterator[Worker]:
    """A worker whose harnesses are kept from one test run to the next."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    CACHE.mkdir(parents=True, exist_ok=True)
    (home / "harnesses").symlink_to(CACHE)
    found = Worker(home, tmp_path / "relay.sock")
    yield found
    found.end()


@pytest.fixture
def policy_of(tmp_path: Path) -> Callable[[int], Path]:
    """Gives the bundled policy's tokenizer for a model of some other context; it has no weights."""

    def make(context_tokens: int) -> Path:
        folder = tmp_path / f"policy-{context_tokens}"
        folder.mkdir()
        settings = json.loads((BUNDLED_POLICY / "config.json").read_text())
        settings["max_position_embeddings"] = context_tokens
        (folder / "config.json").write_text(json.dumps(settings))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).symlink_to(BUNDLED_POLICY / name)
        return folder

    return make


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    played = dict(report.user_properties).get("played")
    if report.when == "call" and played and ALL:
        harness, scene, figures = played
        print(f"\n  {harness} {scene}: {figures}, {report.duration:.1f} s, {report.outcome}", flush=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Harness by scene: what came of it."""
    table: dict[str, dict[str, str]] = {}
    for outcome, word in (("passed", "ok"), ("failed", "FAILED")):
        for report in terminalreporter.getreports(outcome):
            played = dict(report.user_properties).get("played")
            if report.when == "call" and played:
                table.setdefault(played[0], {})[played[1]] = f"{word} {played[2]} {report.duration:.0f} s"
    if not table or not ALL:
        return
    scenes = list(dict.fromkeys(scene for row in table.values() for scene in row))
    rows = [["harness", *scenes], *([name, *(row.get(scene, "-") for scene in scenes)] for name, row in table.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    terminalreporter.section("harness programs (calls / unique of all tokens)")
    for row in rows:
        terminalreporter.write_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
