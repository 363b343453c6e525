"""Shows a run in the terminal until it ends, and then the next one."""

import time

from django.db import Error as DatabaseError
from django.db import connection

from agents import facade
from agents.models import Run
from gyreweb.supervisor import progress
from gyreweb.supervisor.console import Console

EVERY_S = 1.0


class Follower:
    """Reads the run at most once a second. `ended` is true once it has reached its last state, or where there is none.

    After that it waits for the next one.
    """

    def __init__(self, run: Run | None, console: Console) -> None:
        self._run = run
        self._waiting_since: float | None = None
        self._console = console
        self._next_read_at = 0.0
        self._shown_trouble = ""

    def waiting_s(self) -> float:
        """Seconds for which the run has been seen waiting for a person without a break."""
        return 0.0 if self._waiting_since is None else time.monotonic() - self._waiting_since

    @property
    def ended(self) -> bool:
        return self._run is None or self._run.state not in Run.LIVE_STATES

    def refresh(self) -> None:
        if time.monotonic() < self._next_read_at:
            return
        self._next_read_at = time.monotonic() + EVERY_S
        try:
            if self._run is None or self.ended:
                self._run = facade.unfinished_runs().first() or self._run
            else:
                self._show(self._run)
        except DatabaseError as error:
            connection.close()
            self._show_trouble(f"the database does not answer: {str(error).splitlines()[0]}")

    def _show(self, run: Run) -> None:
        run.refresh_from_db()
        self._show_trouble(progress.trouble(run))
        self._console.status(*progress.line(run))
        if not _waits_for_a_person(run):
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = time.monotonic()
        if self.ended:
            reason = f": {run.state_reason}" if run.state_reason else ""
            self._console.notice(f"Run {run.pk} is {run.state}{reason}.")

    def _show_trouble(self, trouble: str) -> None:
        if trouble and trouble != self._shown_trouble:
            self._console.notice(trouble)
        self._shown_trouble = trouble


def _waits_for_a_person(run: Run) -> bool:
    """Paused, or dispatch is held and nothing is owed any more."""
    held = run.dispatch_held and run.waterlevel == 0
    return run.state == Run.State.PAUSED or (run.state == Run.State.RUNNING and held)
