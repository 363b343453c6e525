"""What other apps may ask about cells, role changes and evaluations. Reads only."""

from dataclasses import dataclass

from scheduler.models import Cell, Evaluation, RoleChange


@dataclass(frozen=True)
class CellStatus:
    index: int
    is_core: bool
    role: str
    phase: str
    error: str


def cells(run_id: int) -> list[CellStatus]:
    """The run's cells by index."""
    rows = Cell.objects.filter(run=run_id).order_by("index")
    return [CellStatus(row.index, row.is_core, row.role, row.phase, row.error) for row in rows]


def num_finished_role_changes(run_id: int) -> int:
    return RoleChange.objects.filter(cell__run=run_id, state=RoleChange.State.FINISHED).count()


def evaluation_means(run_id: int) -> list[float]:
    """Mean held-out reward of each finished evaluation, in order of weight version."""
    finished = Evaluation.objects.filter(
        run=run_id, state=Evaluation.State.FINISHED, reward_mean__isnull=False
    ).order_by("version")
    return list(finished.values_list("reward_mean", flat=True))
