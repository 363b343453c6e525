"""A full disk pauses runs before the database suffers, and they go on by themselves when there is room again.

While there is little room no execution starts. When it becomes critical, executions that run or are evaluated are given
up and start again later: what they could not write must not be scored, and their files make room.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from pathlib import Path

from django.db import Error as DatabaseError
from django.db import transaction

from agents import events
from agents.actions.change_run_state import resume_run
from agents.actions.errors import Refused
from agents.executions import pauses
from agents.executions.heartbeat import Heartbeat
from agents.executions.keeping import make_room
from agents.executions.leases import brief_connection
from agents.models import Run
from agents.room import HYSTERESIS, RESERVE_PART, Gauge, Level, Reserve

log = logging.getLogger(__name__)

CODE = "disk_full"
CHECK_EVERY_S = 0.25
#: While there is little room, runs that were started meanwhile are looked for this often.
PAUSE_EVERY_S = 5.0
#: A write that failed though there seemed to be room (a quota, a disk that was cleared meanwhile) pauses for so long.
UNSEEN_S = 60.0


class Full(Exception):
    """What this attempt wrote may be incomplete: it is neither scored nor unresolved, but made again."""

    def __str__(self) -> str:
        return "the disk was full during this attempt, so it is made again"


def is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


class DiskWatch:
    """Of one worker process. `start` has a thread check it all the time; each check acts on what it finds."""

    def __init__(self, home: Path, heartbeat: Heartbeat) -> None:
        self.gauge = Gauge(home)
        self._reserve = Reserve(home, self.gauge.min_bytes // RESERVE_PART)
        self._home, self._heartbeat = home, heartbeat
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._full_at = float("-inf")
        self._pause_at = float("-inf")
        self._resume_at: float | None = float("-inf")  # an earlier process may have left pauses behind

    def start(self) -> None:
        threading.Thread(target=self._watch, name="disk-watch", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def check(self) -> str:
        """Why no execution may start or be evaluated now; empty when it may."""
        with self._lock:
            level = self.gauge.measure()
            if level is Level.CRITICAL:
                self._full_at = time.monotonic()
                self._heartbeat.give_up_all(self.gauge.message)
            if level:
                self._pause()
            elif self._resume_at is not None and time.monotonic() >= self._resume_at:
                resume_runs("there is room on the disk again")
                self._reserve.hold()
                self._resume_at, self._pause_at = None, float("-inf")
            return self.gauge.message

    def holds_evaluation(self) -> bool:
        """Whether evaluations wait: they make room, so only a critical disk holds them."""
        self.check()
        return self.gauge.level is Level.CRITICAL

    def met(self, error: BaseException) -> None:
        """A write has failed for lack of room, whatever the free space looks like."""
        with self._lock:
            if not self.check():
                pause_runs(f"the disk is full: {error}; free some space, or raise the quota of Gyre's user")
            self._full_at = time.monotonic()
            self._resume_at = self._full_at + UNSEEN_S

    def was_full_since(self, began: float) -> bool:
        """Whether what has gone on since `began` (monotonic clock) may have met a full disk."""
        self.check()
        return self._full_at >= began

    def _pause(self) -> None:
        """Make room, and pause what would use it."""
        if time.monotonic() < self._pause_at:
            return
        if make_room(self._home, HYSTERESIS * self.gauge.min_bytes) and not self.gauge.measure():
            return
        self._resume_at = float("-inf")
        pause_runs(self.gauge.message)
        self._pause_at = time.monotonic() + PAUSE_EVERY_S

    def _watch(self) -> None:
        while not self._ended.wait(CHECK_EVERY_S):
            try:
                self.check()
            except DatabaseError as error:
                log.warning("the state of the disk could not be written to the database, trying again: %s", error)
                if self.gauge.level is Level.CRITICAL:  # only now: whatever fills the disk would have taken it too
                    self._reserve.let_go()
            except OSError as error:
                log.warning("the free space could not be read, trying again: %s", error)


def pause_runs(reason: str) -> None:
    """Pause every run that would start executions."""
    with brief_connection():
        for run in Run.objects.filter(state__in=(Run.State.STARTING, Run.State.RUNNING)):
            pauses.pause_run(run.pk, CODE, reason)


def resume_runs(reason: str) -> None:
    """End pauses that were made on this machine; a person's pause is only ended by a person."""
    with brief_connection():
        for run in Run.objects.filter(state=Run.State.PAUSED):
            pause = events.newest(run.pk, events.EventKind.RUN_PAUSED)
            if (
                pause is None
                or pause.get("code") != CODE
                or pause.get("host", socket.gethostname()) != socket.gethostname()
            ):
                continue
            try:
                with transaction.atomic():
                    resume_run(run, user=None, reason=reason)
                    events.record(run.pk, events.EventKind.ALARM_CLEARED, {"code": CODE})
            except Refused:  # somebody was faster
                continue
