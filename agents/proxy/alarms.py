"""Alarms of a run about engines that hang: raised when a call leaves one for its silence, cleared when it speaks again.

An alarm is an event in the run's log, so it outlives this process; what is known here only saves statements.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from agents.proxy.router import Router
from agents.proxy.spool import DATABASE_GONE
from agents.proxy.store import CellRow, Store

log = logging.getLogger(__name__)


@dataclass(slots=True)
class EngineAlarms:
    """`_speaking`: engines whose last sign was a token, by cell and epoch. `_silent`: those whose alarm it raised."""

    store: Store
    router: Router
    _speaking: set[tuple[int, int]] = field(default_factory=set)
    _silent: dict[tuple[int, int], CellRow] = field(default_factory=dict)
    _writing: set[asyncio.Task[None]] = field(default_factory=set)
    _one_by_one: asyncio.Lock = field(default_factory=asyncio.Lock)

    def silent(self, cell: CellRow, limit_s: float) -> None:
        """A call has left this cell's engine, which sent it nothing for so long."""
        self._speaking.discard((cell.id, cell.epoch))
        self._silent[cell.id, cell.epoch] = cell
        others = [known.index for known in self.router.others(cell)]
        what = f"the engine of cell {cell.index} sent a call no token for {limit_s:.0f} s"
        if others:
            message = f"{what}; the call went on at another cell. If it lasts, restart the cell"
        else:
            message = f"{what}, and no other engine takes calls: they wait for this one. Restart the cell"
        alarm = {"code": _code(cell), "message": message, "severity": "warn" if others else "bad"}
        self._write(cell, "alarm_raised", alarm)

    def heard(self, cell: CellRow) -> None:
        """This cell's engine sent a token."""
        if (cell.id, cell.epoch) not in self._speaking:
            self._speaking.add((cell.id, cell.epoch))
            self._clear(cell)

    def forget_gone(self) -> None:
        """Clear the alarms of engines that are gone or were restarted: other alarms report the state of their cells."""
        for cell in list(self._silent.values()):
            known = self.router.cells.get(cell.id)
            if known is None or known.epoch != cell.epoch:
                self._clear(cell)

    def _clear(self, cell: CellRow) -> None:
        self._silent.pop((cell.id, cell.epoch), None)
        self._write(cell, "alarm_cleared", {"code": _code(cell)})

    async def close(self) -> None:
        for task in list(self._writing):
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)

    def _write(self, cell: CellRow, kind: str, payload: dict[str, str]) -> None:
        task = asyncio.get_running_loop().create_task(self._told(cell.run_id, kind, payload))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _told(self, run_id: int, kind: str, payload: dict[str, str]) -> None:
        try:
            async with self._one_by_one:
                await self.store.alarm(run_id, kind, payload)
        except DATABASE_GONE as error:
            log.warning("an alarm of run %s is not written: %s", run_id, error)


def _code(cell: CellRow) -> str:
    return f"engine_of_cell_{cell.index}_is_silent"
