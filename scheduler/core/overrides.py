"""A person's word over the scheduler's: pins, holds, drains, changed settings (docs/algorithms.md §9)."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.core.settings import Settings, changed
from scheduler.core.snapshot import Cell, Override, Snapshot

PIN = "pin"
FORBID_SWITCH = "forbid_switch"
DRAIN = "drain"
HOLD_DISPATCH = "hold_dispatch"
SETTING = "setting"


class Orders(NamedTuple):
    """The overrides in force at one instant."""

    in_force: tuple[Override, ...]
    settings: Settings

    @classmethod
    def of(cls, snapshot: Snapshot, now_s: float) -> Orders:
        if not snapshot.overrides:
            return cls((), snapshot.settings)
        in_force = tuple(o for o in snapshot.overrides if o.expires_at_s > now_s)
        settings = snapshot.settings
        for order in in_force:
            if order.kind == SETTING:
                settings = changed(settings, order.name, order.number)
        return cls(in_force, settings)

    def about(self, kind: str, cell: Cell) -> Override | None:
        """The newest order of this kind for this cell, or for every cell."""
        if not self.in_force:
            return None
        found = [o for o in self.in_force if o.kind == kind and o.cell_index in (None, cell.index)]
        return found[-1] if found else None

    def pin(self, cell: Cell) -> Override | None:
        return self.about(PIN, cell)

    def drain(self, cell: Cell) -> Override | None:
        return self.about(DRAIN, cell)

    def hold(self) -> Override | None:
        return next((o for o in self.in_force if o.kind == HOLD_DISPATCH), None)

    def forbids(self, cell: Cell, role: str) -> str:
        """Why a person's order keeps this cell from switching to `role`; empty when none does."""
        if not self.in_force:
            return ""
        if (drain := self.drain(cell)) is not None:
            return f"override {drain.id} drains it"
        if (pin := self.pin(cell)) is not None and pin.role != role:
            return f"override {pin.id} pins it to {pin.role}"
        if (forbid := self.about(FORBID_SWITCH, cell)) is not None:
            return f"override {forbid.id} forbids switching"
        return ""
