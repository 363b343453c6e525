"""Which engine serves a call (proxy.md; algorithms.md §9, §10).

A call goes where its execution went before, while that cell takes calls; else to the cell with the fewest calls of
ours, of equal ones to the one that has waited longest. Where none has room it waits: for the table of cells to change,
or for another call to end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from agents.proxy.store import CellRow

#: How long a cell whose engine failed is passed over while another one takes calls.
AVOID_S = 2.0


@dataclass(slots=True)
class Router:
    """`cells` is the newest table; `num_calls[cell id]` counts the calls that are out."""

    cells: dict[int, CellRow] = field(default_factory=dict)
    num_calls: Counter[int] = field(default_factory=Counter)
    _turns: dict[int, int] = field(default_factory=dict)
    _num_taken: int = 0
    _avoided_until: dict[int, float] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def update(self, cells: Iterable[CellRow]) -> None:
        table = {cell.id: cell for cell in cells}
        if table != self.cells:
            self.cells = table
            self._wake()

    def pick(
        self, run_id: int, evaluation: int | None, max_calls: int, sticky: int | None, now: float
    ) -> CellRow | None:
        """The cell for one more call, None when none has room. `evaluation` is that of the execution, if it has one."""
        able = [
            cell
            for cell in self.cells.values()
            if cell.run_id == run_id
            and cell.routable
            and cell.evaluation == evaluation
            and self.num_calls[cell.id] < max_calls
        ]
        fresh = [cell for cell in able if self._avoided_until.get(cell.id, 0.0) <= now]
        for cell in fresh:
            if cell.id == sticky:
                return cell
        return min(fresh, key=lambda cell: (self.num_calls[cell.id], self._turns.get(cell.id, 0)), default=None)

    def take(self, cell: CellRow) -> None:
        """A call goes out to this cell; give it back when it has ended."""
        self.num_calls[cell.id] += 1
        self._num_taken += 1
        self._turns[cell.id] = self._num_taken

    def give_back(self, cell: CellRow) -> None:
        self.num_calls[cell.id] -= 1
        self._wake()

    async def changed(self, within_s: float, now: float) -> None:
        """Return when a call may find room that it did not find before, after `within_s` at the latest."""
        ends = [until - now for until in self._avoided_until.values() if until > now]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), min([within_s, *ends]))

    def avoid(self, cell_id: int, now: float) -> None:
        """The cell's engine failed: pass it over for a while."""
        self._avoided_until[cell_id] = now + AVOID_S

    def version_of(self, cell_id: int) -> int | None:
        """Weight version that the cell reports now."""
        cell = self.cells.get(cell_id)
        return cell.weight_version if cell is not None else None

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
