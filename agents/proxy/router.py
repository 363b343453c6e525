"""Which engine serves a call (docs/proxy.md; docs/algorithms.md §9, §10).

A call goes where its execution went before, while that cell takes calls; else to the cell with the fewest calls of
ours, of equal ones to the one that has waited longest. Where none has room it queues: for the table of cells to change,
or for another call to end. Room goes to the waiting executions of a run in turn, to each one's oldest call first, so
an execution with many sub-agents does not starve the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agents.proxy.store import CellRow

#: How long a cell whose engine failed is passed over while another one takes calls.
AVOID_S = 2.0

#: Run and evaluation: calls of one such line compete for the same cells.
Line = tuple[int, int | None]


@dataclass(slots=True, eq=False)
class Waiter:
    """A call that wants a cell. `cell` resolves to one that is already taken for it."""

    line: Line
    execution: int
    max_calls: int
    sticky: int | None
    cell: asyncio.Future[CellRow]


@dataclass(slots=True)
class Router:
    """`cells` is the newest table; `num_calls[cell id]` counts the calls that are out.

    `num_proxies` processes share the room of every cell.
    """

    cells: dict[int, CellRow] = field(default_factory=dict)
    num_calls: Counter[int] = field(default_factory=Counter)
    num_proxies: int = 1
    _turns: dict[int, int] = field(default_factory=dict)
    _num_taken: int = 0
    _avoided_until: dict[int, float] = field(default_factory=dict)
    _lines: dict[Line, OrderedDict[int, deque[Waiter]]] = field(default_factory=dict)
    _at_work: dict[int, set[Callable[[], None]]] = field(default_factory=dict)

    @property
    def num_waiting(self) -> int:
        return sum(len(waiting) for line in self._lines.values() for waiting in line.values())

    def update(self, cells: Iterable[CellRow], num_proxies: int | None = None) -> None:
        """A new table. Calls at an engine that is gone, or was started again, are made to leave it."""
        table = {cell.id: cell for cell in cells}
        num_proxies = num_proxies or self.num_proxies
        if table == self.cells and num_proxies == self.num_proxies:
            return
        gone = [old for old in self.cells.values() if not _is_same_engine(old, table.get(old.id))]
        self.cells, self.num_proxies = table, num_proxies
        for cell in gone:
            for leave in list(self._at_work.get(cell.id, ())):
                leave()
        self._serve_lines()

    def pick(
        self, run_id: int, evaluation: int | None, max_calls: int, sticky: int | None, now: float
    ) -> CellRow | None:
        """The cell for one more call, None when none has room. `evaluation` is that of the execution, if it has one."""
        room = max(1, -(-max_calls // self.num_proxies))
        able = [
            cell
            for cell in self.cells.values()
            if cell.run_id == run_id
            and cell.routable
            and cell.evaluation == evaluation
            and self.num_calls[cell.id] < room
        ]
        fresh = [cell for cell in able if self._avoided_until.get(cell.id, 0.0) <= now]
        for cell in fresh:
            if cell.id == sticky:
                return cell
        return min(fresh, key=lambda cell: (self.num_calls[cell.id], self._turns.get(cell.id, 0)), default=None)

    def enter(self, run_id: int, evaluation: int | None, execution: int, max_calls: int, sticky: int | None) -> Waiter:
        """Ask for a cell; leave with `give_back`, or with `leave` before there is one."""
        loop = asyncio.get_running_loop()
        waiter = Waiter((run_id, evaluation), execution, max_calls, sticky, loop.create_future())
        line = self._lines.setdefault(waiter.line, OrderedDict())
        line.setdefault(execution, deque()).append(waiter)
        self._serve(waiter.line)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Give up waiting; a cell that has just been found goes back."""
        if waiter.cell.done() and not waiter.cell.cancelled():
            self.give_back(waiter.cell.result())
            return
        waiter.cell.cancel()
        waiting = self._lines.get(waiter.line, OrderedDict()).get(waiter.execution)
        if waiting is not None and waiter in waiting:
            waiting.remove(waiter)

    def take(self, cell: CellRow) -> None:
        """A call goes out to this cell; give it back when it has ended."""
        self.num_calls[cell.id] += 1
        self._num_taken += 1
        self._turns[cell.id] = self._num_taken

    def give_back(self, cell: CellRow) -> None:
        self.num_calls[cell.id] -= 1
        self._serve_lines()

    def avoid(self, cell_id: int, now: float) -> None:
        """The cell's engine failed: pass it over for a while."""
        self._avoided_until[cell_id] = now + AVOID_S
        asyncio.get_running_loop().call_later(AVOID_S + 0.01, self._serve_lines)

    def is_unchanged(self, cell: CellRow) -> bool:
        """Whether the cell still takes calls, with the weights that it had."""
        return self.cells.get(cell.id) == cell and cell.routable

    def others(self, cell: CellRow) -> list[CellRow]:
        """Cells that take the same calls."""
        return [
            known
            for known in self.cells.values()
            if known.id != cell.id
            and known.routable
            and (known.run_id, known.evaluation) == (cell.run_id, cell.evaluation)
        ]

    def version_of(self, cell_id: int) -> int | None:
        """Weight version that the cell reports now."""
        cell = self.cells.get(cell_id)
        return cell.weight_version if cell is not None else None

    def at_work(self, cell_id: int, leave: Callable[[], None]) -> None:
        """A call is at this cell's engine; `leave` is called should that engine vanish."""
        self._at_work.setdefault(cell_id, set()).add(leave)

    def off_work(self, cell_id: int, leave: Callable[[], None]) -> None:
        self._at_work.get(cell_id, set()).discard(leave)

    def _serve_lines(self) -> None:
        for line in list(self._lines):
            self._serve(line)

    def _serve(self, key: Line) -> None:
        """Hand out what room there is, one call per waiting execution in turn."""
        line, now = self._lines.get(key), asyncio.get_running_loop().time()
        while line:
            execution, waiting = next(iter(line.items()))
            while waiting and waiting[0].cell.done():
                waiting.popleft()
            if not waiting:
                del line[execution]
                continue
            first = waiting[0]
            cell = self.pick(*key, first.max_calls, first.sticky, now)
            if cell is None:
                return
            self.take(cell)
            first.cell.set_result(cell)
            waiting.popleft()
            line.move_to_end(execution)
            if not waiting:
                del line[execution]
        self._lines.pop(key, None)


def _is_same_engine(old: CellRow, new: CellRow | None) -> bool:
    return new is not None and (new.epoch, new.engine_url) == (old.epoch, old.engine_url)
