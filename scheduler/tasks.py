"""Celery tasks of the scheduler. Messages carry ids only; each task reads what to do from the database."""

from celery import shared_task

from scheduler.actions import launch_cells as cells
from scheduler.whatif import work


@shared_task(name="scheduler.tasks.launch_cells", queue="cells")
def launch_cells(run_id: int) -> None:
    """Launch the run's cells that are not alive."""
    cells.launch_cells(run_id)


@shared_task(name="scheduler.tasks.stop_cells", queue="cells")
def stop_cells(run_id: int) -> None:
    """End the run's cells."""
    cells.stop_cells(run_id)


@shared_task(name="scheduler.tasks.run_what_if", queue="control")
def run_what_if(what_if_id: int) -> None:
    """Answer a what-if, or go on with one whose worker died."""
    work.work_on(what_if_id)
