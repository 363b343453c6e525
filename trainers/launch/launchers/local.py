"""Cells as processes of this machine, forked by the cell host."""

from collections.abc import Sequence
from pathlib import Path

from trainers.launch import wire
from trainers.launch.launchers.base import Launch, LauncherError

STOP_TIMEOUT_S = 30.0


class LocalLauncher:
    def __init__(self, home: Path) -> None:
        self._home = home

    def running(self, run_id: int) -> dict[int, int]:
        cells = self._ask({"op": "list"})["cells"]
        return {cell["cell_index"]: cell["epoch"] for cell in cells if cell["run_id"] == run_id}

    def launch(self, cells: Sequence[Launch]) -> dict[int, str]:
        problems = {}
        for cell in cells:
            request = {"op": "launch", "run_id": cell.run_id, "cell_index": cell.cell_index, "epoch": cell.epoch}
            try:
                wire.ask(self._home, request)
            except wire.HostRefused as refused:
                problems[cell.cell_index] = str(refused)
            except wire.HostUnavailable as error:
                raise LauncherError(f"{error}; see logs/cellhost.log") from error
        return problems

    def stop(self, run_id: int) -> None:
        self._ask({"op": "stop", "run_id": run_id}, STOP_TIMEOUT_S)

    def _ask(self, request: dict[str, object], timeout_s: float = 10.0) -> dict[str, list[dict[str, int]]]:
        try:
            return wire.ask(self._home, request, timeout_s)
        except (wire.HostUnavailable, wire.HostRefused) as error:
            raise LauncherError(f"{error}; see logs/cellhost.log") from error
