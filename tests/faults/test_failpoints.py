"""Around every commit and send of a run's life something fails once before it and once after it; the end is the same.

The scheduler's loop, leases, results, the ledger and the cells' rows are the real ones, on a real Postgres; cells and
workers are stood in for, and do on a failure what their processes do: a loop begins anew, an agent ends and is launched
again, a worker repeats what it persists in, and what it does not know of loses its lease.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.db.models.functions import Now

from agents.executions import leases
from agents.models import Assessment, Execution, Run, RunEvent
from scheduler import wakes
from scheduler.loop import Loop
from scheduler.models import Cell
from scheduler.replay import replay
from tests.faults.failpoints import Failpoints
from tests.processor.records import record_conversation
from tests.scheduler.standin import StandIn, make_run
from trainers.models import HandIn, MicroStep

FAILURES = (OperationalError, psycopg.OperationalError)
#: Some of the places that must have been reached, so that the test cannot pass by reaching none.
EXPECTED = ("enact", "finish_execution", "lease", "claim", "offer", "count_own", "commit_step", "finish_role_change")


class Fragile(StandIn):
    """Cells and workers whose every commit may fail."""

    known: set[tuple[int, int]]

    def _live(self, cell: Cell) -> None:
        self._or_die(cell.index, super()._live, cell)

    def _train(self, cell: Cell) -> None:
        self._or_die(cell.index, super()._train, cell)

    def _or_die(self, index: int, work: Any, cell: Cell) -> None:
        try:
            work(cell)
        except FAILURES:
            self.claims.pop(index, None)
            self.dead.add(index)
            Cell.objects.filter(run=self.run, index=index).update(role=Cell.Role.LOST, error="the agent failed")

    def _work(self) -> None:
        try:
            while leased := leases.lease_queued("stand-in", 1):
                execution = Execution.objects.select_related("group").get(pk=leased[0].execution_id)
                record_conversation(execution, version=self._sampling_version(execution))
                self.known.add((execution.pk, execution.attempt))
        except FAILURES:
            pass
        for execution in Execution.objects.filter(run=self.run, state=Execution.State.RUNNING).order_by("pk"):
            if (execution.pk, execution.attempt) not in self.known:
                Execution.objects.filter(pk=execution.pk).update(lease_expires_at=Now())
            elif self.random.random() < self.finish_share:
                leases.persistently(lambda: self._finish(execution))  # noqa: B023


@pytest.fixture
def points(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Failpoints]:
    monkeypatch.setattr(leases, "_RETRY_S", 0.0)
    found = Failpoints()
    with found.on_django():
        yield found


@pytest.fixture
def cells(points: Failpoints, database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with points.connect(database_url) as opened:
        yield opened


def test_a_run_ends_the_same_whatever_commit_or_send_fails(
    points: Failpoints, cells: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sends: Counter[str] = Counter()
    sent: list[str] = []

    def send(task: str, arguments: object, times: int) -> None:
        """The first message of a kind is lost, the second arrives twice."""
        sends[task] += 1
        sent.extend([task] * {1: 0, 2: 2}.get(sends[task], 1))

    monkeypatch.setattr(wakes, "_send", send)
    points.is_on = False
    run = make_run(cells=2, steps=3, groups_per_batch=2, eval_every_steps=2, eval_tasks=4)
    machine = Fragile(run, cells)
    machine.known = set()
    points.is_on = True
    now_s = [0.0]
    loop = Loop(clock=lambda: now_s[0])
    for _ in range(2_000):
        now_s[0] += 1.0
        try:
            loop.tick()
        except FAILURES:
            loop = Loop(clock=lambda: now_s[0])
        while sent:
            if sent.pop() == wakes.LAUNCH_CELLS:
                try:
                    machine.launch()
                except FAILURES:
                    continue
        machine.round()
        run.refresh_from_db()
        assert 0 <= run.finished <= run.launched <= run.dispatched
        if run.state == Run.State.FINISHED:
            break
    points.is_on = False

    assert (run.state, run.version) == (Run.State.FINISHED, 3), run.state_reason
    assert run.dispatched == run.launched == run.finished == 3 * 2 * 2
    assert not MicroStep.objects.filter(batch__run=run, counted_at=None).exists()
    assert not HandIn.objects.filter(batch__run=run, state="offered").exists()
    verdicts = Counter(Assessment.objects.filter(execution__run=run).values_list("execution", "attempt"))
    assert set(verdicts.values()) == {1}
    assert len(verdicts) == Execution.objects.filter(run=run).count()
    seqs = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))
    assert not replay(run.pk).differences
    call_command("verify_run", str(run.pk))
    for part in EXPECTED:
        assert any(part in where for where in points.refused), f"no commit of {part} was refused"
        assert any(part in where for where in points.lost), f"no answer to a commit of {part} was lost"
    assert set(points.lost) <= set(points.refused)
