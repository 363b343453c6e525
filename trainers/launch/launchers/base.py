"""What a launcher backend does: bring the agents of a run's cells to life, and end them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Launch:
    """One cell in one epoch."""

    run_id: int
    cell_index: int
    epoch: int


class LauncherError(RuntimeError):
    """The backend cannot start cells now; the message says what to do."""


class Launcher(Protocol):
    def running(self, run_id: int) -> dict[int, int]:
        """Epoch by cell index of the run's live agents. Raises LauncherError."""

    def launch(self, cells: Sequence[Launch]) -> dict[int, str]:
        """Start the agents; returns what went wrong, by cell index. Raises LauncherError."""

    def stop(self, run_id: int) -> None:
        """End the run's agents and engines. Nothing to end is no error. Raises LauncherError."""
