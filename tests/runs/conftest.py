"""One `make up` with every real process, and runs that it works off one after the other."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gyreweb import embedded, env
from gyreweb.embedded import ports
from tests.support.waiting import wait_for

SMALL = {
    "steps": 2, "groups_per_batch": 2, "executions_per_group": 3, "eval_every_steps": 0, "tokens_per_micro_step": 1024,
}  # fmt: skip
#: Settings on top of a preset, by name of the run.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "elastic": (
        "quickstart",
        {
            "steps": 3, "groups_per_batch": 6, "executions_per_group": 6, "eval_every_steps": 2, "eval_tasks": 8,
            "tokens_per_micro_step": 1024,
        },
    ),
    "elastic-plus": (
        "quickstart",
        {
            **SMALL, "policy_kind": "elastic+", "steps": 6, "groups_per_batch": 4, "executions_per_group": 4,
            "burst_batches": 3, "max_staleness": 2,
        },
    ),
    "one-cell": ("quickstart", {**SMALL, "cells": 1, "burst_batches": 1}),
    "three-cells": ("quickstart", {**SMALL, "cells": 3}),
    "colocate": ("quickstart", {**SMALL, "policy_kind": "colocate"}),
    "async-barrier": ("quickstart", {**SMALL, "policy_kind": "async-barrier"}),
    "async-streamed": ("quickstart", {**SMALL, "policy_kind": "async-streamed"}),
    "mini-swe": ("mini-swe", {"executions_per_group": 2}),
}  # fmt: skip
OVER = ("finished", "stopped")
#: Far more than any run takes, so that only a run that hangs meets it.
LIMIT_S = 900


@dataclass
class Gyre:
    """A running Gyre. `ids` has the run of each name."""

    home: Path
    variables: dict[str, str]
    process: "subprocess.Popen[str] | None" = None
    ids: dict[str, int] | None = None
    database: str = ""

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=env.REPO_ROOT, env=self.variables, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database) as connection:
            return connection.execute(query, values).fetchall()

    def finished(self, name: str) -> int:
        """Wait for a run to be over; it must have finished. Returns its id."""
        assert self.ids is not None
        run_id = self.ids[name]

        def look() -> tuple[str, str]:
            assert self.process is not None
            assert self.process.poll() is None, self._logs()
            state, reason = self.sql("SELECT state, state_reason FROM agents_run WHERE id = %s", run_id)[0]
            return state, reason

        state, reason = wait_for(
            look, lambda: f"{name} is over\n{self._logs()}", LIMIT_S, until=lambda seen: seen[0] in OVER, poll_s=0.5
        )
        assert state == "finished", f"{name} is {state}: {reason}"
        return run_id

    def _logs(self) -> str:
        files = sorted((self.home / "logs").glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-1500:]}" for file in files)


@pytest.fixture(scope="package")
def gyre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gyre]:
    """Queues all RUNS, starts Gyre, and stops it after the last test of this folder."""
    home = tmp_path_factory.mktemp("runs", numbered=True)
    servers = ("DATABASE_URL", "REDIS_URL", "GYRE_PG_PORT", "GYRE_VALKEY_PORT")
    variables = {name: value for name, value in os.environ.items() if name not in servers} | {
        "GYRE_HOME": str(home),
        "GYRE_WEB_PORT": str(ports.free_port()),
        "GYRE_PROXY_PORT": str(ports.free_port()),
    }
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:  # other tests of this process keep their servers
            for name in servers:
                patch.delenv(name, raising=False)
            urls = stack.enter_context(embedded.servers(home))
        running = Gyre(home, variables, database=urls.database)
        migrated = running.manage("migrate", "-v0")
        assert migrated.returncode == 0, migrated.stderr
        running.ids = {name: _launch(running, *RUNS[name]) for name in RUNS}
        with (home / "up.log").open("w") as log:
            running.process = subprocess.Popen(
                [sys.executable, "-m", "gyreweb.supervisor", "up"],
                cwd=env.REPO_ROOT, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True,
            )  # fmt: skip
        try:
            yield running
        finally:
            running.process.terminate()
            running.process.wait(timeout=60)


def _launch(gyre: Gyre, preset: str, settings: dict[str, Any]) -> int:
    done = gyre.manage(
        "launch",
        "--preset",
        preset,
        "--seed",
        "1",
        *(f"--set={name}={json.dumps(value)}" for name, value in settings.items()),
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
