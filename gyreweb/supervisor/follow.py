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
    """Reads the run at most once a second. `ended` is true once the run has reached its last state."""

    def __init__(self, run: Run, console: Console) -> None:
        self.run = run
        self.ended = False
        self._waiting_since: float | None = None
        self._console = console
        self._next_read_at = 0.0
        self._shown_trouble = ""

    def waiting_s(self) -> float:
        """Seconds for which the run has been seen waiting for a person without a break."""
        return 0.0 if self._waiting_since is None else time.monotonic() - self._waiting_since

    def _waits_for_a_person(self) -> bool:
        """Paused, or dispatch is held and nothing is owed any more."""
        held = self.run.dispatch_held and self.run.waterlevel == 0
        return self.run.state == Run.State.PAUSED or (self.run.state == Run.State.RUNNING and held)

    def refresh(self) -> None:
        if time.monotonic() < self._next_read_at:
            return
        self._next_read_at = time.monotonic() + EVERY_S
        try:
            self._show_next() if self.ended else self._show()
        except DatabaseError as error:
            connection.close()
            self._show_trouble(f"the database does not answer: {str(error).splitlines()[0]}")

    def _show(self) -> None:
        self.run.refresh_from_db()
        self._show_trouble(progress.trouble(self.run))
        self._console.status(*progress.line(self.run))
        if not self._waits_for_a_person():
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = time.monotonic()
        if self.run.state not in Run.LIVE_STATES:
            self.ended = True
            reason = f": {self.run.state_reason}" if self.run.state_reason else ""
            self._console.notice(f"Run {self.run.pk} is {self.run.state}{reason}.")

    def _show_next(self) -> None:
        if (later := facade.unfinished_runs().first()) is not None:
            self.run, self.ended = later, False

    def _show_trouble(self, trouble: str) -> None:
        if trouble and trouble != self._shown_trouble:
            self._console.notice(trouble)
        self._shown_trouble = trouble
