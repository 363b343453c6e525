"""The message that wakes a worker for a what-if."""

from scheduler import wakes

RUN_WHAT_IF = "scheduler.simulator.tasks.run_what_if"
#: A what-if that nobody has taken for so long is asked for again.
REWAKE_EVERY_S = 3.0


def wake(what_if_id: int) -> None:
    """Send after the current transaction has committed."""
    wakes.wake(RUN_WHAT_IF, what_if_id)
