"""One evaluation of `decide` while it is being made: the snapshot, and what was decided so far on top of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scheduler.core import bursts
from scheduler.core.decisions import Decision, Kind
from scheduler.core.overrides import Orders
from scheduler.core.settings import Settings
from scheduler.core.snapshot import LOST, ROLLOUT, STARTING, STOPPED, SWITCHING, TRAINING, Burst, Cell, Snapshot

_ALIVE = (ROLLOUT, TRAINING, SWITCHING, STARTING)
_AWAY = (LOST, STOPPED, STARTING)


@dataclass(slots=True)
class Plan:
    """Reads like the world after the decisions made so far. Only `decide` and its rules write to it."""

    snapshot: Snapshot
    now_s: float
    settings: Settings
    orders: Orders
    waterlevel: int  # W, with what this evaluation has dispatched
    tells_refusals: bool = True
    decisions: list[Decision] = field(default_factory=list)
    num_dispatched: int = 0  # groups dispatched by this evaluation
    num_admitted: int = 0  # groups admitted to the batch in progress by this evaluation
    source: Burst | None = None  # where the next batch takes its groups: one burst, or all of them as if one
    mixes_bursts: bool = False
    batch_burst: int | None = None  # burst of the batch in progress, also of one just opened
    evaluation_starts: bool = False
    evaluation_waits: bool = False  # for a cell that comes in a moment: no burst may take its place
    _desired: dict[int, str] = field(default_factory=dict)
    _reserved: dict[int, int] = field(default_factory=dict)
    #: What `serving`, `coming`, `training` and `core_trains` answered since the last switch or reservation.
    _serving: list[Cell] | None = None
    _coming: list[Cell] | None = None
    _training: list[Cell] | None = None
    _core_trains: bool | None = None
    #: Worth of joining, by number of trainers and measured switch: the same for cells alike.
    worth: dict[tuple[int, float | None], tuple[bool, str]] = field(default_factory=dict)

    @classmethod
    def start(cls, snapshot: Snapshot, now_s: float, mixes_bursts: bool, tells_refusals: bool) -> Plan:
        orders = Orders.of(snapshot, now_s)
        plan = cls(
            snapshot=snapshot,
            now_s=now_s,
            settings=orders.settings,
            orders=orders,
            waterlevel=snapshot.counters.waterlevel,
            tells_refusals=tells_refusals,
            source=bursts.merged(snapshot) if mixes_bursts else bursts.current(snapshot),
            mixes_bursts=mixes_bursts,
        )
        plan.batch_burst = snapshot.batch.burst if snapshot.batch is not None else None
        return plan

    # What holds now

    @property
    def core(self) -> Cell | None:
        for cell in self.snapshot.cells:
            if cell.is_core:
                return cell
        return None

    def desired(self, cell: Cell) -> str:
        return self._desired.get(cell.index, cell.desired_role)

    def evaluation_of(self, cell: Cell) -> int | None:
        return self._reserved.get(cell.index, cell.evaluation)

    def serving(self) -> list[Cell]:
        """R: cells confirmed in rollout that stay and that no evaluation has reserved. Only for reading."""
        found = self._serving
        if found is None:
            found = self._serving = [cell for cell in self.coming() if cell.role == ROLLOUT]
        return found

    def coming(self) -> list[Cell]:
        """R and the cells on their way to it. Only for reading."""
        found = self._coming
        if found is None:
            desired, reserved = self._desired, self._reserved
            found = self._coming = [
                cell
                for cell in self.snapshot.cells
                if cell.role in _ALIVE
                and (desired.get(cell.index, cell.desired_role) if desired else cell.desired_role) == ROLLOUT
                and (reserved.get(cell.index, cell.evaluation) if reserved else cell.evaluation) is None
            ]
        return found

    def training(self) -> list[Cell]:
        """Cells in training or on their way to it. Only for reading."""
        found = self._training
        if found is None:
            desired = self._desired
            found = self._training = [
                cell
                for cell in self.snapshot.cells
                if (desired.get(cell.index, cell.desired_role) if desired else cell.desired_role) == TRAINING
                and cell.role not in _AWAY
            ]
        return found

    @property
    def core_trains(self) -> bool:
        """The core is in training or on its way to it."""
        found = self._core_trains
        if found is None:
            core = self.core
            found = self._core_trains = core is not None and any(cell is core for cell in self.training())
        return found

    # Decisions

    def switch(self, cell: Cell, role: str) -> None:
        self._desired[cell.index] = role
        self._serving = self._coming = self._training = self._core_trains = None

    def reserve(self, cell: Cell, evaluation: int) -> None:
        self._reserved[cell.index] = evaluation
        self._serving = self._coming = None

    def accept(self, kind: Kind, code: str, reason: str, cell: Cell | None = None, **params: Any) -> None:
        self.decisions.append(Decision(kind, True, code, reason, None if cell is None else cell.index, params))

    def dispatch(self, num_groups: int) -> None:
        self.num_dispatched += num_groups
        self.waterlevel += num_groups * self.settings.executions_per_group

    def refuse(self, kind: Kind, code: str, reason: str, cell: Cell | None = None, **params: Any) -> None:
        if self.tells_refusals or params:
            self.decisions.append(Decision(kind, False, code, reason, None if cell is None else cell.index, params))


def called(cell: Cell) -> str:
    """How sentences name a cell."""
    return "the core" if cell.is_core else f"cell {cell.index}"
