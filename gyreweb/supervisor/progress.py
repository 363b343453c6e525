"""A run's progress in one line."""

from agents import facade as agents
from agents.models import Run
from scheduler import facade as scheduler
from scheduler.config import RunConfig

NUM_RECENT = 128


def line(run: Run) -> tuple[str, str]:
    """The status line, and a key that changes when something worth a line of its own has happened."""
    cells = scheduler.cells(run.pk)
    roles = ", ".join(
        f"{'core' if cell.is_core else f'cell {cell.index}'} {cell.role}{f' ({cell.phase})' if cell.phase else ''}"
        for cell in cells
    )
    parts = [
        f"run {run.pk} {run.state}",
        f"step {run.version}/{RunConfig.readable(run.config)['steps']}",
        f"pass rate {_percent(agents.recent_pass_rate(run.pk, NUM_RECENT))}",
        *([f"held-out reward {means[-1]:.2f}"] if (means := scheduler.evaluation_means(run.pk)) else []),
        f"waterlevel {run.waterlevel}",
        roles or "no cells yet",
    ]
    key = f"{run.state} {run.version} {len(means)} {[cell.role for cell in cells]}"
    return " · ".join(parts), key


def trouble(run: Run) -> str:
    """What holds the run up, for the terminal; empty when nothing does."""
    errors = [
        f"{'core' if cell.is_core else f'cell {cell.index}'}: {cell.error}"
        for cell in scheduler.cells(run.pk)
        if cell.error and cell.role == "lost"
    ]
    if run.state == Run.State.PAUSED:
        errors.insert(0, f"run {run.pk} is paused: {run.state_reason or 'by a person'}")
    return "\n".join(errors)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"
