"""A run's way from queued to its end, as far as it is the scheduler's: cells come up, pause on trouble, stop.

One run at a time has this machine's cells; others stay queued. `decide` works only while a run is running or paused.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import transaction
from django.utils import timezone

from agents import events
from agents.actions.cancel_execution import cancel_execution
from agents.actions.errors import Refused
from agents.events import EventKind
from agents.facade import owed_executions
from agents.models import Run
from scheduler import wakes
from scheduler.cells import create_cells, mark_silent_cells, stop_cells, tidy_lost_cells
from scheduler.models import Cell

log = logging.getLogger(__name__)

State = Run.State
#: From the decision to launch a cell to its first report of a role.
START_S = 300.0
RELAUNCH_EVERY_S = 10.0
#: A cell that fails with an error so many times in a row pauses the run; launching goes on.
MAX_RELAUNCHES = 3
#: How long stopping waits for cells that do not answer.
STOP_S = 30.0
CELLS_ALARM = "cells"

UP = (Cell.Role.ROLLOUT, Cell.Role.TRAINING, Cell.Role.SWITCHING)
ACTIVE = (State.STARTING, State.RUNNING, State.PAUSED, State.STOPPING)


def active_run() -> Run | None:
    """The run that has the cells; else the oldest queued one; else one whose cells have not stopped yet."""
    run = Run.objects.filter(state__in=ACTIVE).order_by("pk").first()
    if run is not None:
        return run
    ended = Run.objects.filter(state__in=[State.FINISHED, State.STOPPED])
    left_over = ended.filter(cells__role__in=[*UP, Cell.Role.STARTING]).order_by("pk").first()
    return left_over or Run.objects.filter(state=State.QUEUED).order_by("pk").first()


@dataclass
class Lifecycle:
    """What the loop remembers of one run between ticks; all of it may be lost. `clock` is monotonic seconds."""

    run_id: int
    clock: Callable[[], float]
    since_s: dict[str, float] = field(default_factory=dict)
    relaunched_s: float | None = None
    num_relaunches: int = 0  # since all cells were up
    were_lost: frozenset[int] = frozenset()

    def advance(self, run: Run) -> None:
        """One step towards what the run's state asks for."""
        for_s = self._in_state_for_s(run.state)
        if run.state == State.QUEUED:
            self._start(run)
        elif run.state in (State.STARTING, State.RUNNING, State.PAUSED):
            self._tend_cells(run, for_s)
        elif run.state == State.STOPPING:
            self._stop(run, for_s)
        else:
            self._wind_down(run, for_s)

    def _in_state_for_s(self, state: str) -> float:
        now_s = self.clock()
        self.since_s = {state: self.since_s.get(state, now_s)}
        return now_s - self.since_s[state]

    def _start(self, run: Run) -> None:
        with transaction.atomic():
            if Run.objects.filter(pk=run.pk, state=State.QUEUED).update(state=State.STARTING) != 1:
                return
            create_cells(run)
        self._launch(run)

    def _launch(self, run: Run) -> None:
        """Ask for every wanted cell that has no live process. The launcher leaves those that live alone."""
        self.relaunched_s = self.clock()
        self.num_relaunches += 1
        wakes.wake(wakes.LAUNCH_CELLS, run.pk)

    def _tend_cells(self, run: Run, for_s: float) -> None:
        cells = [c for c in Cell.objects.filter(run=run).order_by("index") if c.desired_role != Cell.Role.STOPPED]
        down = [c for c in cells if c.role not in UP]
        lost = frozenset(c.index for c in cells if c.role == Cell.Role.LOST)
        tidy_lost_cells(run.pk)
        self._tell_recovered(run, frozenset(c.index for c in cells if c.role in UP))
        self.were_lost |= lost
        # A new leader asks once even when all seem up: after a power cut their rows still say so.
        if self.relaunched_s is None or (down and self.clock() - self.relaunched_s >= RELAUNCH_EVERY_S):
            self._launch(run)
        elif not down:
            self.num_relaunches = 0
        if run.state == State.STARTING and not down:
            self._come_up(run)
        elif run.state == State.PAUSED:
            if not down and cells_paused_it(run):
                self._resume(run)
        elif trouble := self._trouble(down, for_s):
            self._pause(run, trouble)

    def _tell_recovered(self, run: Run, up: frozenset[int]) -> None:
        for index in sorted(self.were_lost & up):
            events.record(run.pk, EventKind.CELL_RECOVERED, {"cell": index})
        self.were_lost -= up

    def _come_up(self, run: Run) -> None:
        with transaction.atomic():
            first = run.started_at is None
            changes = {"state": State.RUNNING, "state_reason": ""}
            if first:
                changes["started_at"] = timezone.now()
            if Run.objects.filter(pk=run.pk, state=State.STARTING).update(**changes) == 1:
                kind = EventKind.RUN_STARTED if first else EventKind.RUN_CONTINUED
                events.record(run.pk, kind, {"cells": run.config["cells"]})

    def _trouble(self, down: list[Cell], for_s: float) -> str:
        """Why the run cannot go on for want of a cell; empty while a lost one may still come back."""
        failed = next((c for c in down if c.error), None)
        if failed is not None and self.num_relaunches > MAX_RELAUNCHES:
            return f"{failed} cannot start: {failed.error}"
        now = timezone.now()
        for cell in down:
            waited_s = (now - cell.role_since).total_seconds() if cell.role_since else for_s
            if min(waited_s, for_s) > START_S:
                why = f": {cell.error}" if cell.error else ""
                return f"{cell} did not come up within {START_S:g} s{why}; see logs/cell-{self.run_id}-{cell.index}.log"
        return ""

    def _pause(self, run: Run, reason: str) -> None:
        with transaction.atomic():
            paused = Run.objects.filter(pk=run.pk, state=run.state).update(state=State.PAUSED, state_reason=reason)
            if paused:
                alarm = {"code": CELLS_ALARM, "message": reason, "severity": "bad"}
                paused_event = {"by": "scheduler", "code": CELLS_ALARM, "reason": reason}
                events.record_all(run.pk, [(EventKind.RUN_PAUSED, paused_event), (EventKind.ALARM_RAISED, alarm)])

    def _resume(self, run: Run) -> None:
        with transaction.atomic():
            if Run.objects.filter(pk=run.pk, state=State.PAUSED).update(state=State.RUNNING, state_reason=""):
                resumed = {"by": "scheduler", "reason": "all cells are back"}
                events.record_all(
                    run.pk, [(EventKind.RUN_RESUMED, resumed), (EventKind.ALARM_CLEARED, {"code": CELLS_ALARM})]
                )
                if run.started_at is None:
                    Run.objects.filter(pk=run.pk).update(started_at=timezone.now())
                    events.record(run.pk, EventKind.RUN_STARTED, {"cells": run.config["cells"]})

    def _stop(self, run: Run, for_s: float) -> None:
        """Owed executions are cancelled, then cells stop.

        See docs/algorithms.md §5: cancelled has no reward and no vote.
        """
        for execution in owed_executions(run.pk):
            try:
                cancel_execution(execution, user=None, reason="the run was stopped")
            except Refused:
                continue  # it ended by itself meanwhile
        if self._cells_are_down(run, for_s):
            with transaction.atomic():
                stopped = Run.objects.filter(pk=run.pk, state=State.STOPPING).update(
                    state=State.STOPPED, finished_at=timezone.now()
                )
                if stopped:
                    events.record(run.pk, EventKind.RUN_STOPPED, {"reason": run.state_reason})
                    wakes.wake(wakes.ENFORCE_RETENTION)

    def _wind_down(self, run: Run, for_s: float) -> None:
        """A run has ended; its cells must leave before the next run gets the machine."""
        self._cells_are_down(run, for_s)

    def _cells_are_down(self, run: Run, for_s: float) -> bool:
        up = Cell.objects.filter(run=run).exclude(role__in=[Cell.Role.STOPPED, Cell.Role.LOST])
        if up.exclude(desired_role=Cell.Role.STOPPED).exists():
            stop_cells(run.pk)
        if not up.exists():
            return True
        if for_s < STOP_S:
            return False
        silent = up.update(role=Cell.Role.LOST, error=f"did not stop within {STOP_S:g} s")
        log.warning("run %s: %s cells did not stop and are taken for lost", run.pk, silent)
        return True


def mark_silent(run: Run, silence_s: float) -> None:
    """Cells of a live run that were not heard from are lost."""
    if run.state in (State.STARTING, State.RUNNING, State.PAUSED):
        for index in mark_silent_cells(run.pk, silence_s):
            log.warning("run %s: cell %s is lost", run.pk, index)


def cells_paused_it(run: Run) -> bool:
    """The newest pause was the scheduler's own, for want of cells; a person's pause is only ended by a person."""
    pause = events.newest(run.pk, EventKind.RUN_PAUSED)
    return pause is not None and pause.get("code") == CELLS_ALARM
