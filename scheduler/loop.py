"""The scheduler's loop: one leader by advisory lock; every tick observes, decides, enacts (docs/algorithms.md §9).

It keeps nothing that matters: a new leader goes on from the rows. Standbys wait for the lock.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections, connection, transaction

from agents import events
from agents.actions.expire_leases import expire_leases
from agents.actions.refresh_leases import refresh_leases
from agents.facade import num_long_queued, num_long_unevaluated
from agents.models import Run
from scheduler import chores, wakes
from scheduler.actions.end_evaluation import finish_evaluation
from scheduler.cells import SILENCE_S, database_now_s, refresh_heartbeats
from scheduler.clock import ClockWatch
from scheduler.core.decide import decide
from scheduler.core.policies import policy_of
from scheduler.core.recorder import Recorder
from scheduler.enact import enact
from scheduler.lifecycle import Lifecycle, active_run, mark_silent
from scheduler.observe import Measures, Observation, measure, observe

log = logging.getLogger(__name__)

TICK_S = 0.2
CHORES_EVERY_S = 1.0
MEASURE_EVERY_S = 5.0
REWAKE_EVERY_S = 3.0
#: Failing ticks in a row before the run is paused with the error.
MAX_FAILURES = 10
LEADER_LOCK = 7_919_001


@dataclass
class Loop:
    """State that may be lost at any time. `clock` is monotonic seconds."""

    clock: Callable[[], float] = time.monotonic
    lifecycle: Lifecycle | None = None
    recorder: Recorder = field(default_factory=Recorder)
    measures: Measures | None = None
    rung: tuple[int, int] = (0, 0)
    num_failures: int = 0
    watching_since_s: float | None = None
    clock_watch: ClockWatch = field(default_factory=ClockWatch)
    due_s: dict[str, float] = field(default_factory=dict)

    def tick(self) -> None:
        """One look at the world. Raises what the database raises; nothing half-done stays."""
        if self.watching_since_s is None:
            self.watching_since_s = self.clock()
        for chore in chores.CHORES.values():
            if self._due(chore.name, chore.every_s):
                chore.do()
        run = active_run()
        if run is None:
            return
        if self.lifecycle is None or self.lifecycle.run_id != run.pk:
            self.lifecycle = Lifecycle(run.pk, self.clock)
            self.recorder, self.measures, self.num_failures = Recorder(), None, 0
        if self._due("chores", CHORES_EVERY_S):
            self._chores(run)
            self.lifecycle.advance(run)
        if run.state in (Run.State.RUNNING, Run.State.PAUSED):
            self._decide(run)

    def _decide(self, run: Run) -> None:
        if self.measures is None or self._due("measure", MEASURE_EVERY_S):
            self.measures = measure(run.pk)
        observation = observe(run.pk, self.measures)
        if observation is None or observation.state not in (Run.State.RUNNING, Run.State.PAUSED):
            return
        self._ring(run, observation)
        evaluation = observation.snapshot.evaluation
        if evaluation is not None and evaluation.num_waiting == evaluation.num_running == 0:
            finish_evaluation(run, evaluation.number)
            return
        snapshot = observation.snapshot
        decisions = decide(snapshot, policy_of(snapshot.policy_kind), snapshot.taken_at_s)
        to_store = self.recorder.worth_storing(decisions, snapshot.taken_at_s)
        if to_store or any(decision.accepted for decision in decisions):
            enact(run, observation, decisions, to_store)

    def _chores(self, run: Run) -> None:
        self._watch_clock(run)
        if num := expire_leases(run.pk):
            log.warning("run %s: %s executions lost their worker and start again", run.pk, num)
            wakes.wake_for(wakes.RUN_EXECUTION, num)
        if self._due("rewake", REWAKE_EVERY_S):
            if waiting := num_long_queued(run.pk, REWAKE_EVERY_S):
                wakes.wake_for(wakes.RUN_EXECUTION, waiting)
            if waiting := num_long_unevaluated(run.pk, REWAKE_EVERY_S):
                wakes.wake_for(wakes.EVALUATE_EXECUTION, waiting)
        # After a pause of the database every heartbeat is old: first listen, then judge.
        if self.clock() - (self.watching_since_s or 0.0) > SILENCE_S:
            mark_silent(run, SILENCE_S)

    def _watch_clock(self, run: Run) -> None:
        """Where the database's clock has jumped, what it says of workers, proxies and cells begins anew."""
        is_first = not self.clock_watch.has_begun
        jump_s = self.clock_watch.jump_s(self.clock(), database_now_s())
        if jump_s:
            log.warning("the database's clock has jumped by %+.0f s: leases and heartbeats begin anew", jump_s)
        if jump_s or is_first:
            refresh_leases(run.pk, only_future=not jump_s)
            refresh_heartbeats(run.pk, only_future=not jump_s)

    def _ring(self, run: Run, observation: Observation) -> None:
        """Events of the proxy and the cells ring no bell themselves."""
        if self.rung != (run.pk, observation.event_seq):
            self.rung = (run.pk, observation.event_seq)
            events.ring(run.pk, observation.event_seq)

    def _due(self, what: str, every_s: float) -> bool:
        now_s = self.clock()
        if now_s < self.due_s.get(what, float("-inf")):
            return False
        self.due_s[what] = now_s + every_s
        return True

    def failed(self, error: Exception) -> None:
        """Note a failing tick; after too many in a row the run pauses with the error, for a person to see."""
        self.num_failures += 1
        log.exception("tick failed (%s in a row)", self.num_failures)
        if self.num_failures < MAX_FAILURES or self.lifecycle is None:
            return
        self.num_failures = 0
        reason = f"the scheduler cannot go on: {error!r}; see logs/scheduler.log, then resume the run"
        with transaction.atomic():
            rows = Run.objects.filter(pk=self.lifecycle.run_id, state__in=[Run.State.RUNNING, Run.State.STARTING])
            if rows.update(state=Run.State.PAUSED, state_reason=reason):
                payload = {"by": "scheduler", "code": "scheduler", "reason": reason}
                events.record(self.lifecycle.run_id, events.EventKind.RUN_PAUSED, payload)


def run_forever(stopping: Callable[[], bool], sleep: Callable[[float], object] = time.sleep) -> None:
    """Lead whenever the lock is free, until `stopping`. Survives restarts of the database."""
    while not stopping():
        try:
            with _leadership() as leader:
                if leader is None:
                    sleep(1.0)
                    continue
                log.info("leading")
                _lead(leader, stopping, sleep)
        except (DatabaseError, InterfaceError, psycopg.Error) as error:
            log.warning("the database is away: %s", error)
            close_old_connections()
            sleep(1.0)


@contextmanager
def _leadership() -> Iterator[psycopg.Connection | None]:
    """A connection of its own that holds the leader's lock; None when another process holds it."""
    leader = psycopg.connect(**_connection_parameters(), autocommit=True)
    try:
        row = leader.execute("SELECT pg_try_advisory_lock(%s)", [LEADER_LOCK]).fetchone()
        yield leader if row and row[0] else None
    finally:
        leader.close()


def _connection_parameters() -> dict[str, Any]:
    parameters = connection.get_connection_params()
    return {name: parameters[name] for name in ("dbname", "user", "password", "host", "port") if name in parameters}


def _lead(leader: psycopg.Connection, stopping: Callable[[], bool], sleep: Callable[[float], object]) -> None:
    loop = Loop()
    while not stopping():
        started_s = time.monotonic()
        leader.execute("SELECT 1")  # raises when the connection, and the lock with it, is gone
        try:
            loop.tick()
            loop.num_failures = 0
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            loop.failed(error)
            sleep(1.0)
        sleep(max(0.02, TICK_S - (time.monotonic() - started_s)))
