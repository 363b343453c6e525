"""The simulator's part in the processes of the control plane: its Celery task, and what the scheduler's leader watches.

`scheduler.apps` imports this when the app is ready; nothing else of the scheduler knows the simulator.
"""

from celery import shared_task

from scheduler import chores
from scheduler.simulator.whatif import wakes, work


@shared_task(name=wakes.RUN_WHAT_IF, queue="control")
def run_what_if(what_if_id: int) -> None:
    """Answer a what-if, or go on with one whose worker died."""
    work.work_on(what_if_id)


def ask_again() -> None:
    """Wake a worker for each what-if that nobody works on although it was asked a while ago."""
    for what_if_id in work.waiting(wakes.REWAKE_EVERY_S):
        wakes.wake(what_if_id)


chores.register(chores.Chore("what-ifs", wakes.REWAKE_EVERY_S, ask_again))
