"""The ledger of one batch's micro-steps as a state machine (docs/algorithms.md §11).

It is the law that the SQL ledger (trainers.ledger) must follow, and the model that its property tests run beside it:
each micro-step is counted exactly once; a claim dies only with its cell's epoch; an older epoch can do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


class Refused(Exception):
    """What was asked would break a rule; the ledger is unchanged."""


@dataclass
class MicroStepState:
    """`holder`: (cell, epoch) of the claim; `hand_in`: id of the hand-in that counted it."""

    holder: tuple[int, int] | None = None
    hand_in: str | None = None


@dataclass
class Ledger:
    micro_steps: list[MicroStepState] = field(default_factory=list)
    sealed: bool = False
    epochs: dict[int, int] = field(default_factory=dict)
    hand_ins: dict[str, frozenset[int]] = field(default_factory=dict)

    def append(self, count: int) -> list[int]:
        """New micro-steps of an admitted group; their numbers."""
        if self.sealed:
            raise Refused("the batch is sealed")
        first = len(self.micro_steps)
        self.micro_steps += [MicroStepState() for _ in range(count)]
        return list(range(first, first + count))

    def seal(self) -> None:
        self.sealed = True

    def claim(self, cell: int, epoch: int, limit: int) -> list[int]:
        """The oldest unclaimed micro-steps, at most `limit`, now held by the cell."""
        self._fence(cell, epoch)
        chunk = [number for number, state in enumerate(self.micro_steps) if state.holder is None][:limit]
        for number in chunk:
            self.micro_steps[number].holder = (cell, epoch)
        return chunk

    def hand_in(self, hand_in: str, cell: int, epoch: int, numbers: Iterable[int]) -> bool:
        """Count micro-steps whose gradients the core has added, all or nothing. False: this hand-in was counted before.

        Refused when one of them is not held by this cell and epoch or is counted already.
        """
        self._fence(cell, epoch)
        wanted = frozenset(numbers)
        if hand_in in self.hand_ins:
            if self.hand_ins[hand_in] != wanted:
                raise Refused(f"hand-in {hand_in} was counted with other micro-steps")
            return False
        for number in wanted:
            state = self.micro_steps[number]
            if state.holder != (cell, epoch) or state.hand_in is not None:
                raise Refused(f"micro-step {number} is not an uncounted one of cell {cell}, epoch {epoch}")
        for number in wanted:
            self.micro_steps[number].hand_in = hand_in
        self.hand_ins[hand_in] = wanted
        return True

    def launch(self, cell: int) -> int:
        """A new epoch of the cell begins, or the cell is lost: what older epochs claimed and nobody counted returns."""
        for state in self.micro_steps:
            if state.hand_in is None and state.holder is not None and state.holder[0] == cell:
                state.holder = None
        self.epochs[cell] = self.epochs.get(cell, 0) + 1
        return self.epochs[cell]

    def reset(self) -> None:
        """The core restarted from its checkpoint: every gradient sum is gone, so every micro-step returns."""
        self.micro_steps = [MicroStepState() for _ in self.micro_steps]
        self.hand_ins.clear()

    @property
    def num_counted(self) -> int:
        return sum(state.hand_in is not None for state in self.micro_steps)

    @property
    def is_complete(self) -> bool:
        """The optimizer may step."""
        return self.sealed and self.num_counted == len(self.micro_steps)

    def _fence(self, cell: int, epoch: int) -> None:
        newest = self.epochs.get(cell, 0)
        if epoch != newest:
            raise Refused(f"cell {cell} is at epoch {newest}, not {epoch}")
