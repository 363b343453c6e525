"""Bring a run's cells to life in a new epoch, or end them. Safe to call again at any time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from agents.models import Run
from scheduler.models import Cell
from trainers.launch.launchers import Launch, Launcher, LauncherError, launcher

HOST_WAIT_S = 120.0
HOST_POLL_S = 1.0
_LOCK_CLASS = 0x47594345  # one launch at a time per run


def launch_cells(run_id: int) -> list[int]:
    """Launch every cell of the run that is wanted and has no live agent in its row's epoch. Returns their indices.

    Raises the epoch before the launch, so whatever an older agent still does is refused. When the launcher does not
    answer, the reason is written to the cells and raised as LauncherError.
    """
    run = Run.objects.get(pk=run_id)
    with _one_at_a_time(run_id) as mine:
        if not mine:
            return []
        backend = launcher(run.config["launcher"], settings.GYRE_HOME)
        try:
            running = _running(backend, run_id)
            launches = _raise_epochs(run_id, running)
            problems = backend.launch(launches)
        except LauncherError as error:
            Cell.objects.filter(run=run_id).exclude(role__in=[Cell.Role.ROLLOUT, Cell.Role.TRAINING]).update(
                error=str(error)
            )
            raise
        for index, problem in problems.items():
            Cell.objects.filter(run=run_id, index=index).update(error=problem)
        return [launch.cell_index for launch in launches]


def stop_cells(run_id: int) -> None:
    """End the run's agents and engines; their rows say stopped. Raises LauncherError."""
    run = Run.objects.get(pk=run_id)
    launcher(run.config["launcher"], settings.GYRE_HOME).stop(run_id)
    Cell.objects.filter(run=run_id).update(
        epoch=F("epoch") + 1, role=Cell.Role.STOPPED, phase="", engine_url="", pid=None, num_calls=0
    )


def _running(backend: Launcher, run_id: int) -> dict[int, int]:
    """The host may still be importing: give it time."""
    deadline = time.monotonic() + HOST_WAIT_S
    while True:
        try:
            return backend.running(run_id)
        except LauncherError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(HOST_POLL_S)


def _raise_epochs(run_id: int, running: dict[int, int]) -> list[Launch]:
    with transaction.atomic():
        launches = []
        wanted = Cell.objects.select_for_update(no_key=True).filter(run=run_id).exclude(desired_role=Cell.Role.STOPPED)
        for cell in wanted.order_by("index"):
            if running.get(cell.index) == cell.epoch and cell.role not in (Cell.Role.LOST, Cell.Role.STOPPED):
                continue
            Cell.objects.filter(pk=cell.pk).update(
                epoch=cell.epoch + 1,
                role=Cell.Role.STARTING,
                desired_role=Cell.Role.ROLLOUT,
                phase="",
                error="",
                engine_url="",
                transfer_address="",
                transfer_slots={},
                weight_version=-1,
                weight_hash="",
                num_calls=0,
                heartbeat_at=Now(),
                role_since=Now(),
            )
            launches.append(Launch(run_id, cell.index, cell.epoch + 1))
    return launches


@contextmanager
def _one_at_a_time(run_id: int) -> Iterator[bool]:
    """False when another process is launching this run's cells."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [_LOCK_CLASS, run_id])
        mine: bool = cursor.fetchone()[0]
        try:
            yield mine
        finally:
            if mine:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [_LOCK_CLASS, run_id])
