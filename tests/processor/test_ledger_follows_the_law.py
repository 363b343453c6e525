"""trainers.ledger in Postgres beside its model through random histories (docs/algorithms.md §11)."""

import os
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from records import make_run

from scheduler.models import Cell
from tests.support.ledger_model import Ledger, Refused
from trainers import ledger
from trainers.models import Batch, MicroStep

CORE, CELLS = 0, 3
ANY_CELL = st.integers(0, CELLS - 1)
SATELLITE = st.integers(1, CELLS - 1)


class Histories(RuleBasedStateMachine):
    """`sums`: micro-steps that each living process has added up since its last hand-in, with their claims."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Ledger()
        self.connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        self.run = make_run().run
        self.batch = Batch.objects.create(run=self.run, number=1, burst=1, version=0)
        for index in range(CELLS):
            Cell.objects.create(run=self.run, index=index, is_core=index == CORE)
        self.sums: dict[tuple[int, int], list[ledger.Claim]] = {}
        self.offers: list[tuple[int, int, list[ledger.Claim]]] = []

    def teardown(self) -> None:
        self.connection.close()

    @initialize()
    def start(self) -> None:
        for cell in range(CELLS):
            self.launch(cell)

    def launch(self, cell: int) -> None:
        epoch = self.model.launch(cell)
        Cell.objects.filter(run=self.run, index=cell).update(epoch=epoch, role="training")

    def who(self, cell: int, epoch: int | None = None) -> ledger.CellEpoch:
        return ledger.CellEpoch(self.run.pk, cell, epoch or self.model.epochs[cell])

    def open_batch(self) -> ledger.OpenBatch:
        batch = ledger.open_batch(self.connection, self.run.pk)
        assert batch is not None
        return batch

    @precondition(lambda self: not self.model.sealed)
    @rule(count=st.integers(1, 3))
    def admit(self, count: int) -> None:
        rows = [MicroStep(batch=self.batch, number=n, num_tokens=1, num_targets=1, num_trajectories=1)
                for n in self.model.append(count)]  # fmt: skip
        MicroStep.objects.bulk_create(rows)

    @rule()
    def seal(self) -> None:
        self.model.seal()
        Batch.objects.filter(pk=self.batch.pk).update(state="sealed")

    @rule(cell=ANY_CELL, limit=st.integers(1, 3))
    def claim(self, cell: int, limit: int) -> None:
        epoch = self.model.epochs[cell]
        claims = ledger.claim(self.connection, self.who(cell), self.open_batch(), limit)
        assert [claim.number for claim in claims] == self.model.claim(cell, epoch, limit)
        self.sums.setdefault((cell, epoch), []).extend(claims)

    @rule()
    def the_core_counts_its_own_sum(self) -> None:
        epoch = self.model.epochs[CORE]
        claims = self.sums.pop((CORE, epoch), [])
        hand_in = uuid4()
        self.model.hand_in(str(hand_in), CORE, epoch, [claim.number for claim in claims])
        ledger.count_own(self.connection, self.who(CORE), self.open_batch(), hand_in, claims)

    @rule(cell=SATELLITE, repeats=st.integers(1, 2))
    def a_satellite_offers_its_sum(self, cell: int, repeats: int) -> None:
        epoch = self.model.epochs[cell]
        if any(offer[:2] == (cell, epoch) for offer in self.offers):
            return  # its slot is taken
        claims, hand_in = self.sums.pop((cell, epoch), []), uuid4()
        for _ in range(repeats):
            ledger.offer(self.connection, self.who(cell), self.batch.pk, hand_in, "", len(claims), 1)
        self.offers.append((cell, epoch, claims))

    @precondition(lambda self: bool(self.offers))
    @rule(data=st.data())
    def the_core_counts_an_offer(self, data: st.DataObject) -> None:
        cell, epoch, claims = self.offers.pop(data.draw(st.integers(0, len(self.offers) - 1)))
        open_offers = ledger.offers(self.connection, self.batch.pk)
        offer = next(o for o in open_offers if (o.cell_index, o.epoch) == (cell, epoch))
        batch = self.open_batch()
        if self.sums.get((cell, epoch)):
            # It went on claiming: the sum in the slot is not all that it holds, so it cannot be told apart.
            with pytest.raises(ledger.Fenced):
                ledger.count(self.connection, self.who(CORE), batch, offer)
            assert ledger.refuse(self.connection, offer.id, "not its whole claim")
            self.sums[cell, epoch] += claims
            return
        try:
            self.model.hand_in(str(offer.id), cell, epoch, [claim.number for claim in claims])
        except Refused:
            with pytest.raises(ledger.Fenced):
                ledger.count(self.connection, self.who(CORE), batch, offer)
            assert ledger.refuse(self.connection, offer.id, "its epoch is over")
        else:
            ledger.count(self.connection, self.who(CORE), batch, offer)
            with pytest.raises(ledger.Fenced):
                ledger.count(self.connection, self.who(CORE), batch, offer)

    @rule(cell=SATELLITE)
    def a_satellite_dies_and_comes_back(self, cell: int) -> None:
        self.launch(cell)

    @rule(data=st.data())
    def a_zombie_acts(self, data: st.DataObject) -> None:
        dead = [key for key in self.sums if key[1] < self.model.epochs[key[0]]]
        if not dead:
            return
        cell, epoch = data.draw(st.sampled_from(dead))
        with pytest.raises(ledger.Fenced):
            ledger.claim(self.connection, self.who(cell, epoch), self.open_batch(), 1)
        with pytest.raises(ledger.Fenced):
            ledger.offer(self.connection, self.who(cell, epoch), self.batch.pk, uuid4(), "", 1, 1)
        with pytest.raises(ledger.Fenced):
            ledger.count_own(self.connection, self.who(cell, epoch), self.open_batch(), uuid4(), self.sums[cell, epoch])

    @rule()
    def the_core_restarts(self) -> None:
        """Satellites that see it discard their sums."""
        self.launch(CORE)
        self.model.reset()
        ledger.reset_open_batch(self.connection, self.who(CORE))
        self.sums.clear()
        self.offers.clear()

    @invariant()
    def the_same_micro_steps_are_counted(self) -> None:
        rows = MicroStep.objects.filter(batch=self.batch, hand_in__isnull=False, counted_at__isnull=False)
        counted = [n for n, state in enumerate(self.model.micro_steps) if state.hand_in is not None]
        assert sorted(rows.values_list("number", flat=True)) == counted
        progress = ledger.progress(self.connection, self.run.pk, self.batch.pk)
        free = sum(state.holder is None for state in self.model.micro_steps)
        assert (progress.num_micro_steps, progress.num_unclaimed) == (len(self.model.micro_steps), free)
        assert progress.num_uncounted == len(self.model.micro_steps) - len(counted)


@pytest.mark.django_db(transaction=True)
def test_the_sql_ledger_does_what_its_model_does() -> None:
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
