"""The model of the ledger in random histories: each micro-step counts once, whoever dies when.

docs/algorithms.md §11.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.ledger_model import Ledger, Refused

CELLS = st.integers(0, 2)


class Histories(RuleBasedStateMachine):
    """`gradient` stands for the core's sum: which micro-steps it holds, and how often."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.gradient: list[int] = []
        self.held: dict[tuple[int, int], list[int]] = {}
        self.sent = 0

    @initialize()
    def start(self) -> None:
        for cell in range(3):
            assert self.ledger.launch(cell) == 1

    @precondition(lambda self: not self.ledger.sealed)
    @rule(count=st.integers(0, 4))
    def admit(self, count: int) -> None:
        self.ledger.append(count)

    @rule()
    def seal(self) -> None:
        self.ledger.seal()

    @rule(cell=CELLS, limit=st.integers(1, 3))
    def claim(self, cell: int, limit: int) -> None:
        epoch = self.ledger.epochs[cell]
        self.held.setdefault((cell, epoch), []).extend(self.ledger.claim(cell, epoch, limit))

    @rule(cell=CELLS, repeats=st.integers(1, 2))
    def hand_in(self, cell: int, repeats: int) -> None:
        epoch = self.ledger.epochs[cell]
        numbers = self.held.pop((cell, epoch), [])
        self.sent += 1
        for _ in range(repeats):
            if self.ledger.hand_in(f"h{self.sent}", cell, epoch, numbers):
                self.gradient += numbers

    @rule(cell=CELLS)
    def lose(self, cell: int) -> None:
        self.ledger.launch(cell)

    @rule(data=st.data())
    def a_zombie_hands_in(self, data: st.DataObject) -> None:
        dead = [holder for holder in self.held if holder[1] < self.ledger.epochs[holder[0]]]
        if dead:
            cell, epoch = data.draw(st.sampled_from(dead))
            with pytest.raises(Refused):
                self.ledger.hand_in("zombie", cell, epoch, self.held[cell, epoch])
            with pytest.raises(Refused):
                self.ledger.claim(cell, epoch, 1)

    @rule()
    def the_core_restarts(self) -> None:
        for cell in range(3):
            self.ledger.launch(cell)
        self.ledger.reset()
        self.gradient.clear()

    @invariant()
    def the_sum_holds_exactly_what_is_counted(self) -> None:
        counted = [number for number, state in enumerate(self.ledger.micro_steps) if state.hand_in is not None]
        assert sorted(self.gradient) == counted

    @invariant()
    def no_micro_step_is_stuck(self) -> None:
        """Each is free, counted, or held by a live epoch."""
        for state in self.ledger.micro_steps:
            if state.holder is not None and state.hand_in is None:
                cell, epoch = state.holder
                assert epoch == self.ledger.epochs[cell]

    def teardown(self) -> None:
        """Whatever happened, the batch can be completed."""
        self.ledger.seal()
        self.the_core_restarts()
        self.claim(0, len(self.ledger.micro_steps) or 1)
        self.hand_in(0, 1)
        assert self.ledger.is_complete
        assert sorted(self.gradient) == list(range(len(self.ledger.micro_steps)))


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def ledger(count: int = 3) -> tuple[Ledger, int]:
    made = Ledger()
    epoch = made.launch(0)
    made.append(count)
    return made, epoch


def test_a_hand_in_of_a_micro_step_claimed_by_another_is_refused_whole() -> None:
    made, epoch = ledger()
    other = made.launch(1)
    mine, theirs = made.claim(0, epoch, 1), made.claim(1, other, 1)
    with pytest.raises(Refused, match="micro-step 1"):
        made.hand_in("a", 0, epoch, [*mine, *theirs])
    assert made.num_counted == 0


def test_a_repeated_hand_in_is_recognised_and_counts_nothing_new() -> None:
    made, epoch = ledger()
    numbers = made.claim(0, epoch, 2)
    assert made.hand_in("a", 0, epoch, numbers)
    assert not made.hand_in("a", 0, epoch, numbers)
    with pytest.raises(Refused, match="other micro-steps"):
        made.hand_in("a", 0, epoch, numbers[:1])


def test_a_sealed_batch_takes_no_more_micro_steps() -> None:
    made, _ = ledger()
    made.seal()
    with pytest.raises(Refused, match="sealed"):
        made.append(1)
    assert not made.is_complete
