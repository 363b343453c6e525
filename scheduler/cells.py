"""Rows of cells: created with the run, marked lost when silent, told of every desired state."""

from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from agents import events
from agents.channels import CELLS_CHANNEL
from agents.events import EventKind
from agents.models import Run
from scheduler.models import Cell, RoleChange

#: A cell that serves or trains and has not been heard from for so long is lost.
SILENCE_S = 20.0


@dataclass(frozen=True)
class LostCell:
    index: int
    error: str


def create_cells(run: Run) -> None:
    """K rows; cell 0 is the core. Their agents are started by the launcher (docs/algorithms.md §9)."""
    existing = set(Cell.objects.filter(run=run).values_list("index", flat=True))
    Cell.objects.bulk_create(
        Cell(run=run, index=index, is_core=index == 0, role=Cell.Role.STARTING, role_since=Now())
        for index in range(run.config["cells"])
        if index not in existing
    )


def tell_cells(run_id: int) -> None:
    """Proxies listen, and poll as well; cells poll."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CELLS_CHANNEL, str(run_id)])


_SILENT = """
UPDATE scheduler_cell SET role = 'lost', role_since = now(), num_calls = 0,
    error = CASE WHEN error = '' THEN 'no heartbeat for more than ' || %(silence)s || ' s' ELSE error END
WHERE run_id = %(run)s AND role IN ('rollout', 'training', 'switching')
    AND heartbeat_at < now() - make_interval(secs => %(silence)s)
RETURNING index, error
"""


def mark_silent_cells(run_id: int, silence_s: float = SILENCE_S) -> list[int]:
    """Cells without a heartbeat become lost, by the database's clock. Their claims die with the role."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_SILENT, {"run": run_id, "silence": silence_s})
        lost = [LostCell(*row) for row in cursor.fetchall()]
        if lost:
            events.record_all(run_id, [(EventKind.CELL_LOST, {"cell": c.index, "error": c.error}) for c in lost])
    return [cell.index for cell in lost]


def database_now_s() -> float:
    """The clock that leases and heartbeats go by, in seconds since 1970."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        return float(cursor.fetchone()[0])


def refresh_heartbeats(run_id: int, only_future: bool = False) -> int:
    """The database's clock was set: cells are heard of as of now. `only_future`: just those that lie ahead of it."""
    cells = Cell.objects.filter(run=run_id, heartbeat_at__isnull=False)
    return (cells.filter(heartbeat_at__gt=Now()) if only_future else cells).update(heartbeat_at=Now())


def tidy_lost_cells(run_id: int) -> None:
    """A lost cell starts anew in rollout: its reservation is over, and so are role changes of its older epochs."""
    with transaction.atomic():
        lost = Cell.objects.filter(run=run_id, role=Cell.Role.LOST).exclude(desired_role=Cell.Role.STOPPED)
        tidied = lost.exclude(desired_role=Cell.Role.ROLLOUT, evaluation=None).update(
            desired_role=Cell.Role.ROLLOUT, evaluation=None
        )
        RoleChange.objects.filter(
            Q(epoch__lt=F("cell__epoch")) | Q(cell__role=Cell.Role.LOST),
            cell__run=run_id,
            state=RoleChange.State.STARTED,
        ).update(state=RoleChange.State.FAILED, error="the cell was lost", finished_at=Now())
        if tidied:
            tell_cells(run_id)


def stop_cells(run_id: int) -> None:
    Cell.objects.filter(run=run_id).update(desired_role=Cell.Role.STOPPED, evaluation=None)
    tell_cells(run_id)
