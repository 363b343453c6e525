"""A seeded storm over a real run: every kind of process is killed, and every kind is stopped (SIGSTOP) for a while.

Several at once: two die together, four are silent together. After each wave something still ends and the dashboard
answers; after the storm the run steps on, no recorded call is lost, every invariant holds, decisions replay, and
another run goes to its end on the same processes. GYRE_CHAOS_SEED draws another storm; GYRE_CHAOS_ROUNDS=5 a long one.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from agents.executions.leases import LEASE_S
from gyreweb import embedded
from gyreweb.embedded.postgres import Postgres
from gyreweb.embedded.valkey import Valkey
from gyreweb.supervisor import record
from scheduler.cells import SILENCE_S
from tests.support.own_gyre import calls, manage, up, use_home
from tests.support.waiting import wait_for

SEED = int(os.environ.get("GYRE_CHAOS_SEED", "1"))
ROUNDS = int(os.environ.get("GYRE_CHAOS_ROUNDS", "1"))
#: More steps than the storm leaves time for: it is stopped when it has shown that it goes on.
STORMED = {"steps": 5000, "groups_per_batch": 4, "executions_per_group": 6, "eval_every_steps": 0}
CALM = STORMED | {"steps": 2}
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
SERVERS = ("Postgres", "Valkey")
ALL = (*PROCESSES, *CELLS, *SERVERS)
#: Seconds of silence. A worker's is longer than its leases, a cell's than its heartbeats may be late: others take their
#: work while they are away. The rest are only waited for.
SILENT_S = {"worker of executions": LEASE_S + 5.0, "core": SILENCE_S + 5.0, "satellite": SILENCE_S + 5.0}
BRIEFLY_S = 6.0


@dataclass(frozen=True)
class Wave:
    """What is struck at once: killed, or silent for so many seconds each."""

    silent_s: dict[str, float]
    killed: tuple[str, ...] = ()

    def __str__(self) -> str:
        silences = (f"stop {target} for {seconds:g} s" for target, seconds in self.silent_s.items())
        return ", ".join([*(f"kill {target}" for target in self.killed), *silences])


def storm(seed: int) -> list[Wave]:
    """Every kind is killed once and stopped once, in an order of the seed's."""
    draw = random.Random(seed)
    killed, silent = draw.sample(ALL, len(ALL)), draw.sample(ALL, len(ALL))
    kills = [Wave({}, tuple(killed[at : at + 2])) for at in range(0, len(ALL), 2)]
    spells = [silent[at : at + 4] for at in range(0, len(ALL), 4)]
    stops = [Wave({target: SILENT_S.get(target, BRIEFLY_S) for target in spell}) for spell in spells]
    return [*kills, *stops]


@dataclass
class Gyre:
    """The processes and rows of the Gyre under the storm."""

    home: Path
    database: str
    run_id: int

    def strike(self, wave: Wave) -> None:
        """Returns when the last of the wave's silences is over. Fails when one of its kinds was not to be had."""
        pids = {target: self._pids_once_there(target) for target in (*wave.killed, *wave.silent_s)}
        for target in wave.killed:
            _send(pids[target], signal.SIGKILL)
        for target in wave.silent_s:
            _send(pids[target], signal.SIGSTOP)
        for target in wave.silent_s:
            # The first is the process itself; those that serve a connection of Postgres may just have ended.
            wait_for(lambda: _state(pids[target][0]) == "T", f"{target} is stopped")  # noqa: B023
            wait_for(lambda: all(_state(pid) in "TZX" for pid in pids[target]), f"{target} is stopped whole")  # noqa: B023
        began_s = time.monotonic()
        with ThreadPoolExecutor(1) as visitor:
            answered = visitor.submit(self.dashboard_answers) if "web" in wave.silent_s else None
            for target, seconds in sorted(wave.silent_s.items(), key=lambda silence: silence[1]):
                time.sleep(max(0.0, began_s + seconds - time.monotonic()))
                _send(pids[target], signal.SIGCONT)
            assert answered is None or answered.result(), f"who waited for the web is not answered: {wave}"

    def _pids_once_there(self, target: str) -> list[int]:
        return wait_for(lambda: self._pids(target), f"there is a {target}\n{self.logs()}", RECOVERS_WITHIN_S)

    def _pids(self, target: str) -> list[int]:
        if target in SERVERS:
            server = Postgres(self.home) if target == "Postgres" else Valkey(self.home)
            return [pid for parent in [server.pid()] if parent for pid in (parent, *_children(parent))]
        if target in CELLS:
            return [pid for pid, index in self.rows("SELECT pid, index FROM scheduler_cell WHERE pid IS NOT NULL "
                    "AND role NOT IN ('lost', 'stopped')") if index == CELLS[target] and _command(pid)]  # fmt: skip
        mine = record.read(self.home)
        marked = [] if mine is None else record.marked(mine)
        found = [pid for pid in marked if PROCESSES[target] in _command(pid)]
        # The cell host and the sandbox server fork children with their own command line: the parent is the oldest.
        return found[:1] if target in ("cell host", "sandbox server") else found

    def num_finished(self) -> int:
        return int(self._of_run("finished"))

    def num_steps(self) -> int:
        return int(self._of_run("version"))

    def has_finished(self) -> bool:
        return self._of_run("state") == "finished"

    def _of_run(self, column: str) -> object:
        [(value, state, reason)] = self.rows(
            f"SELECT {column}, state, state_reason FROM agents_run WHERE id = %s", self.run_id
        )
        assert state != "stopped", reason
        return value

    def rows(self, query: str, *values: object) -> list[tuple]:
        def ask() -> list[tuple] | None:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.database) as connection:
                return connection.execute(query, values).fetchall() or [()]
            return None

        return [row for row in wait_for(ask, "the database answers") if row]

    def dashboard_answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{_web()}/login/", timeout=30.0) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def stop_run(self) -> None:
        """Over REST, as a person's script would."""
        token = manage("create_token", "storm", "--scopes", "read,operate").strip()
        request = urllib.request.Request(
            f"{_web()}/api/v1/runs/{self.run_id}/stop",
            json.dumps({"reason": "the storm is over"}).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60.0) as answer:
            assert answer.status == 200

    def logs(self) -> str:
        files = [self.home / "up.log", *sorted((self.home / "logs").glob("*.log"))]
        return "\n".join(
            f"== {file.name}\n{file.read_text(errors='replace')[-1500:]}" for file in files if file.exists()
        )


def _web() -> str:
    return f"http://127.0.0.1:{os.environ['GYRE_WEB_PORT']}"


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _state(pid: int) -> str:
    """The kernel's letter: T is stopped, Z and X are dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _children(pid: int) -> list[int]:
    """Postgres serves each connection by a process of its own."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _launch(settings: dict[str, int]) -> int:
    named = (f"--set={name}={value}" for name, value in settings.items())
    return int(manage("launch", "--preset", "quickstart", "--seed", str(SEED), *named).strip())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_home(tmp_path, monkeypatch)
    return tmp_path


def test_a_run_outlives_the_death_and_the_silence_of_each_of_its_processes(home: Path) -> None:
    manage("migrate", "-v0")
    run_id = _launch(STORMED)
    struck: list[str] = []
    with embedded.servers(home) as urls, up(home) as process:
        gyre = Gyre(home, urls.database, run_id)

        def goes_on(what: str, number: Callable[[], int], at_least: int) -> None:
            wait_for(lambda: number() >= at_least, lambda: f"{what} after: {struck}\n{gyre.logs()}", RECOVERS_WITHIN_S)

        goes_on("executions finish", gyre.num_finished, 6)
        for wave in [wave for turn in range(ROUNDS) for wave in storm(SEED + turn)]:
            recorded, finished = calls(urls.database), gyre.num_finished()
            gyre.strike(wave)
            struck.append(str(wave))
            goes_on("executions finish", gyre.num_finished, finished + 1)
            wait_for(gyre.dashboard_answers, lambda: f"the dashboard answers after: {struck}\n{gyre.logs()}")
            assert recorded <= calls(urls.database), f"calls were lost: {struck}"
        goes_on("the policy is trained", gyre.num_steps, gyre.num_steps() + 2)
        gyre.stop_run()
        manage("verify_run", str(run_id))
        manage("replay_decisions", str(run_id))

        gyre.run_id = _launch(CALM)
        goes_on("the next run steps", gyre.num_steps, CALM["steps"])
        wait_for(lambda: gyre.has_finished(), lambda: f"the next run ends\n{gyre.logs()}")
        manage("verify_run", str(gyre.run_id))
        manage("replay_decisions", str(gyre.run_id))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60.0)
        assert process.returncode == 0, gyre.logs()
