"""kill -9 of every process in mid-run: the run goes on from its last step, and no recorded call is lost."""

import json
import os
import signal
from pathlib import Path

import psycopg
import pytest

from gyreweb import embedded
from gyreweb.embedded.postgres import Postgres
from gyreweb.embedded.valkey import Valkey
from gyreweb.supervisor import record
from tests.support.own_gyre import calls, manage, up, use_home
from tests.support.waiting import wait_for

SETTINGS = {"steps": 4, "groups_per_batch": 4, "executions_per_group": 6, "eval_every_steps": 0}
LIMIT_S = 600


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_home(tmp_path, monkeypatch)
    return tmp_path


def wait_until_mid_run(home: Path, database: str) -> None:
    """After the first step, with executions of the next burst in their harness and calls on record for them."""

    def look() -> tuple[int, int]:
        """The run's version, and its executions that run and have called."""
        with psycopg.connect(database) as connection:
            row = connection.execute(
                """
                SELECT r.state, r.version,
                       (SELECT count(DISTINCT c.execution_id) FROM agents_call c JOIN agents_execution e
                        ON e.id = c.execution_id WHERE e.run_id = r.id AND e.state = 'running')
                FROM agents_run r
                """
            ).fetchone()
        assert row is not None
        state, *seen = row
        assert state in ("queued", "starting", "running"), state
        return tuple(seen)

    what = lambda: f"version 2 and 2 executions in flight; {(home / 'up.log').read_text()[-3000:]}"  # noqa: E731
    wait_for(look, what, LIMIT_S, until=lambda seen: min(seen) >= 2)


def test_a_run_killed_in_the_middle_goes_on_and_loses_no_recorded_call(home: Path) -> None:
    manage("migrate", "-v0")
    settings = (f"--set={name}={value}" for name, value in SETTINGS.items())
    run_id = manage("launch", "--preset", "quickstart", "--seed", "5", *settings).strip()
    with up(home) as first:
        with embedded.servers(home) as urls:
            wait_until_mid_run(home, urls.database)
            before = calls(urls.database)
        mine = record.read(home)
        assert mine is not None
        for pid in (first.pid, *record.marked(mine), Postgres(home).pid(), Valkey(home).pid()):
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

    with up(home, ONCE="1", SEED="5") as second:
        output, _ = second.communicate(timeout=LIMIT_S)
    assert second.returncode == 0, (home / "up.log").read_text()[-3000:]
    summary = json.loads(output.splitlines()[-1])
    assert (summary["run"], summary["steps"], summary["unresolved"]) == (int(run_id), 4, 0)
    with embedded.servers(home) as urls:
        assert before <= calls(urls.database)
        with psycopg.connect(urls.database) as connection:
            retried = connection.execute("SELECT count(*) FROM agents_execution WHERE attempt > 1").fetchone()
    assert retried is not None
    assert retried[0] >= 1
    assert list(home.glob("runs/*/executions/*-*")) == []  # the killed attempts' files are cleared away, too
    manage("verify_run", run_id)
