"""One call of `decide` while it is being made: the snapshot, and what was decided so far on top of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core import bursts
from scheduler.core.decisions import Decision, Kind, Params
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
    waterlevel: int  # W, with what this call of `decide` has dispatched
    decisions: list[Decision] = field(default_factory=list)
    num_dispatched: int = 0  # groups dispatched by this call of `decide`
    num_admitted: int = 0  # groups admitted to the batch in progress by this call of `decide`
    source: Burst | None = None  # where the next batch takes its groups: one burst, or all of them as if one
    mixes_bursts: bool = False
    batch_burst: int | None = None  # burst of the batch in progress, also of one just opened
    evaluation_starts: bool = False  # a held-out evaluation, by this call of `decide`
    evaluation_waits: bool = False  # one is due and its cell comes in a moment: no burst may take that cell's place
    _desired: dict[int, str] = field(default_factory=dict)
    _reserved: dict[int, int] = field(default_factory=dict)

    @classmethod
    def start(cls, snapshot: Snapshot, now_s: float, mixes_bursts: bool) -> Plan:
        orders = Orders.of(snapshot, now_s)
        plan = cls(
            snapshot=snapshot,
            now_s=now_s,
            settings=orders.settings,
            orders=orders,
            waterlevel=snapshot.counters.waterlevel,
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
        """R: cells confirmed in rollout that stay and that no evaluation has reserved."""
        return [cell for cell in self.coming() if cell.role == ROLLOUT]

    def coming(self) -> list[Cell]:
        """R and the cells on their way to it."""
        return [
            cell
            for cell in self.snapshot.cells
            if cell.role in _ALIVE and self.desired(cell) == ROLLOUT and self.evaluation_of(cell) is None
        ]

    def training(self) -> list[Cell]:
        """Cells in training or on their way to it."""
        return [cell for cell in self.snapshot.cells if self.desired(cell) == TRAINING and cell.role not in _AWAY]

    @property
    def core_trains(self) -> bool:
        """The core is in training or on its way to it."""
        return any(cell.is_core for cell in self.training())

    # Decisions

    def switch(self, cell: Cell, role: str) -> None:
        self._desired[cell.index] = role

    def reserve(self, cell: Cell, evaluation: int) -> None:
        self._reserved[cell.index] = evaluation

    def accept(
        self, kind: Kind, code: str, reason: str, cell: Cell | None = None, params: Params | None = None
    ) -> None:
        self.decisions.append(Decision(kind, True, code, reason, None if cell is None else cell.index, params))

    def dispatch(self, num_groups: int) -> None:
        self.num_dispatched += num_groups
        self.waterlevel += num_groups * self.settings.executions_per_group

    def refuse(
        self, kind: Kind, code: str, reason: str, cell: Cell | None = None, again_s: float | None = None
    ) -> None:
        """`again_s`: when to ask again, where only time will change the answer."""
        index = None if cell is None else cell.index
        self.decisions.append(Decision(kind, False, code, reason, index, again_s=again_s))


def called(cell: Cell) -> str:
    """How sentences name a cell."""
    return "the core" if cell.is_core else f"cell {cell.index}"
