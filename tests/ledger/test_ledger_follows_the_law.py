"""trainers.ledger on the real schema, step by step beside trainers.core.claims (algorithms.md §11)."""

import itertools
import os
from collections.abc import Iterator
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

from agents.config import preset
from agents.models import Project, Run, TaskSet
from scheduler.models import Cell
from trainers import ledger
from trainers.core.claims import Ledger, Refused
from trainers.ledger import CellEpoch
from trainers.models import Batch, HandIn, MicroStep

CORE, SATELLITES = 0, (1, 2)
_serial = itertools.count()


def make_run() -> Run:
    project, _ = Project.objects.get_or_create(name="ledger")
    task_set, _ = TaskSet.objects.get_or_create(name="none")
    run = Run.objects.create(
        project=project,
        task_set=task_set,
        name=f"ledger {next(_serial)}",
        config=preset("quickstart").model_dump(mode="json"),
        seed=1,
    )
    for index in range(3):
        Cell.objects.create(run=run, index=index, is_core=index == CORE, epoch=1, role="training")
    return run


class SqlBesideTheLaw(RuleBasedStateMachine):
    """Every step is done on both; `gradient` is what the core has added, `held` what each epoch has summed."""

    connection: psycopg.Connection[tuple[object, ...]]

    @initialize()
    def start(self) -> None:
        self.run = make_run()
        self.batch_row = Batch.objects.create(run=self.run, number=1, burst=1, version=0)
        self.law = Ledger()
        for index in range(3):
            self.law.launch(index)
        self.gradient: list[int] = []
        self.held: dict[tuple[int, int], list[int]] = {}

    @property
    def batch(self) -> ledger.OpenBatch:
        found = ledger.open_batch(self.connection, self.run.pk)
        assert found is not None
        return found

    def who(self, index: int, epoch: int = 0) -> CellEpoch:
        return CellEpoch(self.run.pk, index, epoch or self.law.epochs[index])

    @precondition(lambda self: not self.law.sealed)
    @rule(count=st.integers(1, 4))
    def admit(self, count: int) -> None:
        for number in self.law.append(count):
            MicroStep.objects.create(
                batch=self.batch_row, number=number, num_tokens=1, num_targets=1, num_trajectories=1, payload=b"p"
            )

    @rule()
    def seal(self) -> None:
        self.law.seal()
        Batch.objects.filter(pk=self.batch_row.pk).update(state="sealed", num_votes=1)

    @rule(index=st.integers(0, 2), limit=st.integers(1, 3))
    def claim(self, index: int, limit: int) -> None:
        claimed = [c.number for c in ledger.claim(self.connection, self.who(index), self.batch, limit)]
        assert claimed == self.law.claim(index, self.law.epochs[index], limit)
        if index == CORE and claimed:
            rows = [ledger.Claim(r.pk, r.number, b"") for r in self.batch_row.micro_steps.filter(number__in=claimed)]
            ledger.count_own(self.connection, self.who(CORE), self.batch, uuid4(), rows)
            self.law.hand_in(f"own{next(_serial)}", CORE, self.law.epochs[CORE], claimed)
            self.gradient += claimed
        else:
            self.held.setdefault((index, self.law.epochs[index]), []).extend(claimed)

    @rule(index=st.sampled_from(SATELLITES), lies=st.booleans())
    def hand_in(self, index: int, lies: bool) -> None:
        """A sum that holds another number of micro-steps than the ledger knows is refused as a whole."""
        epoch = self.law.epochs[index]
        numbers = self.held.pop((index, epoch), [])
        hand_in_id = uuid4()
        for _ in range(2):  # idempotent
            ledger.offer(
                self.connection, self.who(index), self.batch.id, hand_in_id, "hash", len(numbers) + lies, slot=1
            )
        [offered] = ledger.offers(self.connection, self.batch.id)
        if lies:
            with pytest.raises(ledger.Fenced):
                ledger.count(self.connection, self.who(CORE), self.batch, offered)
            assert ledger.refuse(self.connection, offered.id, "lie")
            assert ledger.release(self.connection, self.who(index), self.batch.id) == len(numbers)
            for number in numbers:
                self.law.micro_steps[number].holder = None
            return
        ledger.count(self.connection, self.who(CORE), self.batch, offered)
        assert self.law.hand_in(str(hand_in_id), index, epoch, numbers)
        self.gradient += numbers
        with pytest.raises(ledger.Fenced):
            ledger.count(self.connection, self.who(CORE), self.batch, offered)

    @rule(index=st.sampled_from(SATELLITES), offers_first=st.booleans(), is_marked=st.booleans())
    def lose_a_satellite(self, index: int, offers_first: bool, is_marked: bool) -> None:
        """Also with an offer on the way, also when it was marked lost before it is launched again."""
        epoch = self.law.epochs[index]
        numbers = self.held.get((index, epoch), [])
        zombie = self.who(index)
        if offers_first:
            ledger.offer(self.connection, zombie, self.batch.id, uuid4(), "hash", len(numbers), slot=1)
        if is_marked:
            Cell.objects.filter(run=self.run, index=index).update(role="lost")
            with pytest.raises(ledger.Fenced):
                ledger.claim(self.connection, zombie, self.batch, 1)
        Cell.objects.filter(run=self.run, index=index).update(epoch=epoch + 1, role="training")
        self.law.launch(index)
        for offered in ledger.offers(self.connection, self.batch.id):
            with pytest.raises(ledger.Fenced):
                ledger.count(self.connection, self.who(CORE), self.batch, offered)
            ledger.refuse(self.connection, offered.id, "lost")
        with pytest.raises(ledger.Fenced):
            ledger.offer(self.connection, zombie, self.batch.id, uuid4(), "hash", len(numbers), slot=1)
        with pytest.raises(Refused):
            self.law.claim(index, epoch, 1)

    @rule()
    def the_core_restarts(self) -> None:
        """Its sums are gone. Satellites live on with sums that now count for nothing."""
        zombie = self.who(CORE)
        Cell.objects.filter(run=self.run, index=CORE).update(epoch=zombie.epoch + 1)
        self.law.launch(CORE)
        self.law.reset()
        with pytest.raises(ledger.Fenced):
            ledger.reset_open_batch(self.connection, zombie)
        ledger.reset_open_batch(self.connection, self.who(CORE))
        for (index, epoch), numbers in self.held.items():
            if numbers and epoch == self.law.epochs[index]:
                ledger.offer(self.connection, self.who(index), self.batch.id, uuid4(), "h", len(numbers), slot=1)
                [offered] = ledger.offers(self.connection, self.batch.id)
                with pytest.raises(ledger.Fenced):
                    ledger.count(self.connection, self.who(CORE), self.batch, offered)
                ledger.refuse(self.connection, offered.id, "the core restarted")
        self.held.clear()
        self.gradient.clear()

    @invariant()
    def the_rows_are_the_law(self) -> None:
        if not hasattr(self, "law"):
            return
        rows = list(self.batch_row.micro_steps.order_by("number"))
        assert [row.hand_in_id is not None for row in rows] == [s.hand_in is not None for s in self.law.micro_steps]
        assert [row.hand_in_id is not None for row in rows] == [row.counted_at is not None for row in rows]
        assert sorted(self.gradient) == [row.number for row in rows if row.hand_in_id]
        found = ledger.progress(self.connection, self.run.pk, self.batch_row.pk)
        assert found.num_micro_steps == len(rows)
        assert found.num_unclaimed == sum(s.holder is None for s in self.law.micro_steps)
        assert found.num_uncounted == len(rows) - self.law.num_counted
        assert (self.batch.sealed and not found.num_uncounted) == self.law.is_complete
        for hand_in in HandIn.objects.filter(batch=self.batch_row):
            num = hand_in.micro_steps.count()
            assert num == (hand_in.num_micro_steps if hand_in.state == "counted" else 0)


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(database_url, autocommit=True) as opened:
        yield opened


def test_the_sql_ledger_follows_the_law_whatever_dies_when(connection: psycopg.Connection) -> None:
    SqlBesideTheLaw.connection = connection
    run_state_machine_as_test(
        SqlBesideTheLaw,
        settings=settings(
            max_examples=int(os.environ.get("GYRE_LEDGER_EXAMPLES", "25")),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
