"""What the ledger refuses, and what one step publishes at once. Its random histories: tests/processor."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from agents.models import Group, Project, Run, RunEvent, Task, TaskSet
from scheduler.config import preset
from scheduler.models import Cell
from trainers import ledger, publication
from trainers.ledger import CellEpoch
from trainers.models import Batch, Checkpoint, HandIn, MicroStep, WeightVersion
from trainers.publication import StepCommit

Connection = psycopg.Connection[Any]
STEP = StepCommit(
    batch_id=0,
    version=1,
    checkpoint_path="/c/v1",
    checkpoint_sha256="c" * 64,
    checkpoint_bytes=5,
    cursor={"version": 1},
    weights_sha256="w" * 64,
    manifest={"peer": "127.0.0.1:1"},
    metrics={"loss": 0.5},
)


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    with psycopg.connect(database_url, autocommit=True) as opened:
        yield opened


@pytest.fixture
def run(database_url: str) -> Run:
    project = Project.objects.create(name="ledger")
    task_set = TaskSet.objects.create(name="none")
    config = preset("quickstart").model_dump(mode="json")
    run = Run.objects.create(project=project, task_set=task_set, name="ledger", config=config, seed=1)
    for index in range(3):
        Cell.objects.create(run=run, index=index, is_core=index == 0, epoch=1, role="training")
    return run


def who(run: Run, index: int, epoch: int = 1) -> CellEpoch:
    return CellEpoch(run.pk, index, epoch)


def open_batch(run: Run, connection: Connection, num_micro_steps: int) -> ledger.OpenBatch:
    row = Batch.objects.create(run=run, number=1, burst=1, version=0)
    for number in range(num_micro_steps):
        MicroStep.objects.create(
            batch=row, number=number, num_tokens=1, num_targets=1, num_trajectories=1, payload=b"payload"
        )
    batch = ledger.open_batch(connection, run.pk)
    assert batch is not None
    return batch


def test_a_claim_is_no_larger_than_its_limit_whatever_plan_is_chosen(run: Run, connection: Connection) -> None:
    """The statistics of a table that was just emptied let Postgres go through all rows, and pick anew for each."""
    emptied = Batch.objects.create(run=run, number=2, burst=1, version=0, state="stepped")
    MicroStep.objects.bulk_create(
        MicroStep(batch=emptied, number=number, num_tokens=1, num_targets=1, num_trajectories=1, payload=b"payload")
        for number in range(300)
    )
    MicroStep.objects.all().delete()
    connection.execute("ANALYZE trainers_microstep")
    batch = open_batch(run, connection, 4)
    assert [claim.number for claim in ledger.claim(connection, who(run, 0), batch, 1)] == [0]
    assert [claim.number for claim in ledger.claim(connection, who(run, 1), batch, 2)] == [1, 2]


def seal(batch: ledger.OpenBatch) -> None:
    Batch.objects.filter(pk=batch.id).update(state="sealed", num_votes=4)


def test_cells_that_claim_at_the_same_time_share_the_micro_steps(
    run: Run, connection: Connection, database_url: str
) -> None:
    batch = open_batch(run, connection, 40)
    taken: list[int] = []

    def claim_all(index: int) -> None:
        with psycopg.connect(database_url, autocommit=True) as mine:
            while claims := ledger.claim(mine, who(run, index), batch, 2):
                assert all(claim.payload == b"payload" for claim in claims)
                taken.extend(claim.number for claim in claims)

    threads = [threading.Thread(target=claim_all, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(40))


def test_a_lost_cell_keeps_nothing_and_may_say_nothing(run: Run, connection: Connection) -> None:
    batch = open_batch(run, connection, 3)
    ledger.claim(connection, who(run, 1), batch, 3)
    assert ledger.claim(connection, who(run, 2), batch, 3) == []
    hand_in_id = uuid4()
    ledger.offer(connection, who(run, 1), batch.id, hand_in_id, "hash", 3, slot=1)
    Cell.objects.filter(run=run, index=1).update(role="lost")
    assert [claim.number for claim in ledger.claim(connection, who(run, 2), batch, 2)] == [0, 1]
    [offered] = ledger.offers(connection, batch.id)
    with pytest.raises(ledger.Fenced):
        ledger.count(connection, who(run, 0), batch, offered)
    for act in (
        lambda: ledger.claim(connection, who(run, 1), batch, 1),
        lambda: ledger.offer(connection, who(run, 1), batch.id, uuid4(), "hash", 1, slot=1),
    ):
        with pytest.raises(ledger.Fenced):
            act()
    assert ledger.hand_in_state(connection, hand_in_id) == ("offered", "")
    assert not MicroStep.objects.filter(batch=batch.id, hand_in__isnull=False).exists()


def test_a_sum_from_before_the_core_restarted_is_refused_whatever_was_claimed_since(
    run: Run, connection: Connection
) -> None:
    batch = open_batch(run, connection, 4)
    held = ledger.claim(connection, who(run, 1), batch, 2)
    Cell.objects.filter(run=run, index=0).update(epoch=2)
    with pytest.raises(ledger.Fenced):
        ledger.reset_open_batch(connection, who(run, 0))
    assert ledger.reset_open_batch(connection, who(run, 0, epoch=2)) == 2
    held += ledger.claim(connection, who(run, 1), batch, 2)
    ledger.offer(connection, who(run, 1), batch.id, uuid4(), "hash", len(held), slot=1)
    [offered] = ledger.offers(connection, batch.id)
    with pytest.raises(ledger.Fenced, match="summed 4 micro-steps but holds 2"):
        ledger.count(connection, who(run, 0, epoch=2), batch, offered)
    assert ledger.refuse(connection, offered.id, "stale")
    assert ledger.release(connection, who(run, 1), batch.id) == 2
    assert ledger.progress(connection, run.pk, batch.id).num_unclaimed == 4


def test_a_failed_write_names_its_slot_and_counts_nothing(run: Run, connection: Connection) -> None:
    batch = open_batch(run, connection, 1)
    hand_in_id = uuid4()
    ledger.report_failed_write(connection, who(run, 1), batch.id, hand_in_id, 3, "timed out")
    assert ledger.failed_slots(connection, batch.id) == {(1, 1, 3)}
    assert ledger.hand_in_state(connection, hand_in_id) == ("refused", "timed out")
    assert ledger.offers(connection, batch.id) == []
    assert ledger.hand_in_state(connection, uuid4())[0] == "refused"


def test_an_offer_can_be_taken_back_only_while_it_is_open(run: Run, connection: Connection) -> None:
    batch = open_batch(run, connection, 1)
    ledger.claim(connection, who(run, 1), batch, 1)
    taken_back, counted = uuid4(), uuid4()
    ledger.offer(connection, who(run, 1), batch.id, taken_back, "hash", 1, slot=1)
    assert ledger.withdraw(connection, taken_back)
    ledger.offer(connection, who(run, 1), batch.id, counted, "hash", 1, slot=1)
    [offered] = ledger.offers(connection, batch.id)
    ledger.count(connection, who(run, 0), batch, offered)
    assert not ledger.withdraw(connection, counted)
    assert ledger.hand_in_state(connection, counted) == ("counted", "")


def test_a_step_publishes_everything_at_once(run: Run, connection: Connection) -> None:
    task = Task.objects.create(task_set=run.task_set, name="t", config={})
    mine, other = (Group.objects.create(run=run, task=task, number=n, state="admitted", batch=n) for n in (1, 2))
    batch = open_batch(run, connection, 2)
    for _ in range(2):
        ledger.count_own(connection, who(run, 0), batch, uuid4(), ledger.claim(connection, who(run, 0), batch, 1))
    seal(batch)
    publication.commit_step(connection, who(run, 0), batch, STEP)
    run.refresh_from_db()
    assert run.version == 1
    assert Batch.objects.get(pk=batch.id).state == "stepped"
    assert Batch.objects.get(pk=batch.id).metrics == {"loss": 0.5}
    assert Checkpoint.objects.get(run=run).sha256 == STEP.checkpoint_sha256
    assert WeightVersion.objects.get(run=run).manifest == STEP.manifest
    assert HandIn.objects.filter(batch=batch.id, state="counted").count() == 2
    mine.refresh_from_db()
    other.refresh_from_db()
    assert (mine.state, other.state) == ("consumed", "admitted")
    kinds = list(RunEvent.objects.filter(run=run).order_by("-seq").values_list("kind", flat=True)[:2])
    assert kinds == ["weights_published", "step_committed"]
    assert ledger.open_batch(connection, run.pk) is None


def test_a_step_that_is_not_due_publishes_nothing(run: Run, connection: Connection) -> None:
    batch = open_batch(run, connection, 1)
    seal(batch)
    claims = ledger.claim(connection, who(run, 0), batch, 1)
    with pytest.raises(ledger.Fenced):
        publication.commit_step(connection, who(run, 0), batch, STEP)
    ledger.count_own(connection, who(run, 0), batch, uuid4(), claims)
    for core, step in ((who(run, 0, epoch=2), STEP), (who(run, 0), replace(STEP, version=2))):
        with pytest.raises(ledger.Fenced):
            publication.commit_step(connection, core, batch, step)
    Batch.objects.filter(pk=batch.id).update(state="open")
    with pytest.raises(ledger.Fenced):
        publication.commit_step(connection, who(run, 0), batch, STEP)
    run.refresh_from_db()
    assert run.version == 0
    assert not Checkpoint.objects.exists()
    assert not WeightVersion.objects.exists()
    assert not RunEvent.objects.filter(run=run, kind="step_committed").exists()
