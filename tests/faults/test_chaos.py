"""A seeded storm over a real run: every process is killed, and those that can be stopped long enough to matter are.

The run goes on by itself to its end, every invariant holds, its decisions replay, and no recorded call is lost.
GYRE_CHAOS_SEED draws another order; GYRE_CHAOS_ROUNDS=5 makes it a soak of half an hour.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from agents.executions.leases import LEASE_S
from gyreweb import embedded
from gyreweb.embedded.postgres import Postgres
from gyreweb.embedded.valkey import Valkey
from gyreweb.supervisor import record
from tests.support.own_gyre import calls, manage, up, use_home
from tests.support.waiting import wait_for

SEED = int(os.environ.get("GYRE_CHAOS_SEED", "1"))
ROUNDS = int(os.environ.get("GYRE_CHAOS_ROUNDS", "1"))
SETTINGS = {"steps": 16 * ROUNDS, "groups_per_batch": 4, "executions_per_group": 6, "eval_every_steps": 0}
LIMIT_S = 900.0 * ROUNDS
#: Far more than a fault costs; a fault after which nothing ever ends again meets it.
RECOVERS_WITHIN_S = 240.0
#: What the command line of each kind of process holds.
PROCESSES = {
    "web": "gyreweb.serve",
    "proxy": "agents.proxy",
    "scheduler": "run_scheduler",
    "worker of executions": "worker-executions@",
    "worker of evaluations": "worker-control@",
    "sandbox server": "agents.harness.sandbox.server",
    "cell host": "trainers.launch.host",
}
CELLS = {"core": 0, "satellite": 1}
#: Stopped for so long, then continued: longer than leases and heartbeats allow, or just long enough to be missed.
STOPPED_S = {"worker of executions": LEASE_S + 5, "core": 25.0, "proxy": 4.0, "scheduler": 4.0, "Postgres": 4.0}


@dataclass(frozen=True)
class Fault:
    target: str
    stopped_s: float = 0.0

    def __str__(self) -> str:
        return f"stop {self.target} for {self.stopped_s:g} s" if self.stopped_s else f"kill {self.target}"


@dataclass
class Storm:
    home: Path
    database: str
    run_id: int

    def strike(self, fault: Fault) -> bool:
        """False: the run was over before."""
        wait_for(lambda: self.pids(fault.target) or self.is_over(), f"there is a {fault.target}")
        if not (pids := self.pids(fault.target)) or self.is_over():
            return False
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if fault.stopped_s else signal.SIGKILL)
        time.sleep(fault.stopped_s)
        for pid in pids if fault.stopped_s else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return True

    def pids(self, target: str) -> list[int]:
        if target == "Postgres":
            return [pid for pid in [Postgres(self.home).pid()] if pid]
        if target == "Valkey":
            return [pid for pid in [Valkey(self.home).pid()] if pid]
        if target in CELLS:
            return [pid for pid, index in self._sql("SELECT pid, index FROM scheduler_cell WHERE pid IS NOT NULL "
                    "AND role NOT IN ('lost', 'stopped')") if index == CELLS[target]]  # fmt: skip
        mine = record.read(self.home)
        marked = [] if mine is None else record.marked(mine)
        found = [pid for pid in marked if PROCESSES[target] in _command(pid)]
        # The cell host and the sandbox server fork children with their own command line: the parent is the oldest.
        return found[:1] if target in ("cell host", "sandbox server") else found

    def is_over(self) -> bool:
        [(state, reason)] = self._sql("SELECT state, state_reason FROM agents_run WHERE id = %s", self.run_id)
        assert state not in ("failed", "stopped"), reason
        return bool(state == "finished")

    def num_finished(self) -> int:
        [(finished,)] = self._sql("SELECT finished FROM agents_run WHERE id = %s", self.run_id)
        return int(finished)

    def _sql(self, query: str, *values: object) -> list[tuple]:
        def ask() -> list[tuple] | None:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.database) as connection:
                return connection.execute(query, values).fetchall() or [()]
            return None

        return [row for row in wait_for(ask, "the database answers") if row]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def faults(seed: int) -> list[Fault]:
    """Every kill, then every stop, each in an order of the seed's."""
    draw = random.Random(seed)
    kills = [Fault(target) for target in (*PROCESSES, *CELLS, "Postgres", "Valkey")]
    stops = [Fault(target, seconds) for target, seconds in STOPPED_S.items()]
    draw.shuffle(kills)
    draw.shuffle(stops)
    return [*kills, *stops]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_home(tmp_path, monkeypatch)
    return tmp_path


def test_a_run_outlives_the_death_and_the_silence_of_each_of_its_processes(home: Path) -> None:
    manage("migrate", "-v0")
    settings = (f"--set={name}={value}" for name, value in SETTINGS.items())
    run_id = manage("launch", "--preset", "quickstart", "--seed", str(SEED), *settings).strip()
    struck: list[str] = []
    with embedded.servers(home) as urls, up(home, ONCE="1") as gyre:
        storm = Storm(home, urls.database, int(run_id))
        wait_for(lambda: storm.num_finished() >= 6, lambda: _logs(home), LIMIT_S)
        for fault in [fault for turn in range(ROUNDS) for fault in faults(SEED + turn)]:
            if storm.is_over():
                break
            before, finished = calls(urls.database), storm.num_finished()
            if not storm.strike(fault):
                break
            struck.append(str(fault))
            wait_for(
                lambda: storm.num_finished() > finished or storm.is_over(),  # noqa: B023
                lambda: f"something ends after: {struck}\n{_logs(home)}",
                RECOVERS_WITHIN_S,
            )
            assert before <= calls(urls.database), f"calls were lost: {struck}"
        output, _ = gyre.communicate(timeout=LIMIT_S)
        assert gyre.returncode == 0, _logs(home)
        summary = json.loads(output.splitlines()[-1])
        assert (summary["run"], summary["steps"]) == (int(run_id), SETTINGS["steps"])
        assert [fault for fault in map(str, faults(SEED)) if fault.startswith("kill") and fault not in struck] == []
        manage("verify_run", run_id)
        manage("replay_decisions", run_id)


def _logs(home: Path) -> str:
    files = [home / "up.log", *sorted((home / "logs").glob("*.log"))]
    return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-1500:]}" for file in files if file.exists())
