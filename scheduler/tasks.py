"""Celery tasks of the scheduler. Messages carry ids only; each task reads what to do from the database."""

from celery import shared_task

from scheduler.actions import launch_cells as cells


@shared_task(name="scheduler.tasks.launch_cells", queue="cells")
def launch_cells(run_id: int) -> None:
    """Launch the run's cells that are not alive."""
    cells.launch_cells(run_id)


@shared_task(name="scheduler.tasks.stop_cells", queue="cells")
def stop_cells(run_id: int) -> None:
    """End the run's cells."""
    cells.stop_cells(run_id)
