"""A simulated moment, written as rows of Postgres, is observed as the snapshot it was, and decided the same live."""

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction

from agents.models import Group, Run, Task
from scheduler.core import snapshot as facts
from scheduler.core.decide import decide
from scheduler.core.decisions import Decision
from scheduler.core.policies import policy_of
from scheduler.models import Burst, Cell
from scheduler.observe import Measures, observe
from scheduler.simulator.core import Workload
from scheduler.simulator.core.parts import SimGroup
from tests.scheduler.standin import make_run
from tests.simulate.strategies import POLICIES, Case, make_settings
from tests.simulate.watched import Watch
from trainers.models import Batch, HandIn, MicroStep

pytestmark = pytest.mark.django_db
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EVERY = 9  # one snapshot in so many is written


class Rows:
    """Writes one snapshot as the rows of a run, its times moved so that it is taken now."""

    def __init__(self, snapshot: facts.Snapshot, groups: dict[int, SimGroup]) -> None:
        self.snapshot, self.groups = snapshot, groups
        with connection.cursor() as cursor:
            cursor.execute("SELECT now()")
            self.now: datetime = cursor.fetchone()[0]
        self.run = make_run(state=Run.State.RUNNING)
        self.pks: dict[int, int] = {}

    def when(self, second: float) -> datetime:
        return self.now + timedelta(seconds=second - self.snapshot.taken_at_s)

    def moved(self, second: float | None) -> float | None:
        """The second that the database gives back for this one."""
        return None if second is None else (self.when(second) - EPOCH) / timedelta(seconds=1)

    def write(self) -> None:
        seen = self.snapshot
        Run.objects.filter(pk=self.run.pk).update(
            config={**self.run.config, **asdict(seen.settings)},
            policy_kind=seen.policy_kind,
            version=seen.version,
            dispatched=seen.counters.dispatched,
            launched=seen.counters.launched,
            finished=seen.counters.finished,
        )
        for cell in seen.cells:
            Cell.objects.create(
                run=self.run, index=cell.index, is_core=cell.is_core, role=cell.role, desired_role=cell.desired_role,
                epoch=cell.epoch, weight_version=cell.weight_version, num_calls=cell.num_calls,
                role_since=None if cell.role_since_s is None else self.when(cell.role_since_s),
            )  # fmt: skip
        self._write_groups()
        if seen.batch is not None:
            self._write_batch(seen.batch)

    def _write_groups(self) -> None:
        seen, task = self.snapshot, Task.objects.filter(split=Task.Split.TRAIN).first()
        for number in sorted({group.burst.number for group in self.groups.values()}):
            burst = next(g.burst for g in self.groups.values() if g.burst.number == number)
            Burst.objects.create(
                run=self.run, number=number, version=burst.version, max_staleness=burst.max_staleness,
                num_groups=sum(g.burst is burst for g in self.groups.values()),
                groups_per_batch=burst.groups_per_batch, executions_per_group=seen.settings.executions_per_group,
            )  # fmt: skip
        places = {ready.id: place for burst in seen.bursts for place, ready in enumerate(burst.ready)}
        for group in self.groups.values():
            settled = group.state != "dispatched"
            row = Group.objects.create(
                run=self.run, task=task, number=group.id, burst=group.burst.number, state=group.state,
                ready_order=places.get(group.id), ready_at=self.when(group.settled_s) if settled else None,
            )  # fmt: skip
            self.pks[group.id] = row.pk

    def _write_batch(self, seen: facts.Batch) -> None:
        batch = Batch.objects.create(
            run=self.run, number=seen.number, burst=seen.burst, version=seen.version,
            state=Batch.State.SEALED if seen.sealed else Batch.State.OPEN, num_groups=seen.num_groups,
        )  # fmt: skip
        hand_in = HandIn.objects.create(hand_in_id=uuid4(), batch=batch, cell_index=0, epoch=0, num_micro_steps=0)
        steps = [MicroStep(cell_index=None) for _ in range(seen.num_unclaimed)]
        counted = seen.num_counted
        for cell in self.snapshot.cells:
            claimed_at = None if cell.last_claim_s is None else self.when(cell.last_claim_s)
            claims = [MicroStep(cell_index=cell.index, epoch=cell.epoch) for _ in range(cell.num_uncounted)]
            if claimed_at is not None and not claims and counted:
                counted -= 1
                claims = [MicroStep(cell_index=cell.index, epoch=cell.epoch, hand_in=hand_in)]
            for claim in claims:
                claim.claimed_at = claimed_at
            steps += claims
        steps += [MicroStep(cell_index=0, epoch=0, hand_in=hand_in) for _ in range(counted)]
        for number, step in enumerate(steps):
            step.batch, step.number = batch, number
            step.num_tokens = step.num_targets = step.num_trajectories = 1
        MicroStep.objects.bulk_create(steps)

    def expected(self) -> facts.Snapshot:
        """The snapshot with the rows' ids and the database's times."""
        seen, moved = self.snapshot, self.moved
        return replace(
            seen,
            taken_at_s=moved(seen.taken_at_s),
            cells=tuple(
                replace(c, role_since_s=moved(c.role_since_s), last_claim_s=moved(c.last_claim_s)) for c in seen.cells
            ),
            bursts=tuple(
                replace(
                    b,
                    ready=tuple(facts.ReadyGroup(self.pks[r.id], moved(r.ready_at_s) or 0.0) for r in b.ready),
                    settled_at_s=(moved(b.settled_at_s) or 0.0) if self._any_settled(b.number) else 0.0,
                )
                for b in seen.bursts
            ),
        )

    def _any_settled(self, number: int) -> bool:
        return any(g.burst.number == number and g.state != "dispatched" for g in self.groups.values())


def gist(decisions: list[Decision]) -> list[tuple[object, ...]]:
    return [(d.kind, d.accepted, d.cell_index, d.reason_code) for d in decisions]


def case(policy_kind: str, failures_per_h: float) -> Case:
    settings = make_settings(
        cells=3, concurrency_per_cell=8, groups_per_batch=3, executions_per_group=3, steps=5, burst_batches=2,
        max_staleness=1, rho_min=0.4, supply_hold_s=20.0,
    )  # fmt: skip
    workload = Workload(
        execution_h=0.5, log_sd_within=0.6, harness_timeout_s=1e6, unresolved_share=0.3, train_cell_h=0.4,
        micro_steps_per_group=3, cell_failures_per_h=failures_per_h,
    )  # fmt: skip
    return Case(settings, workload, policy_kind, 11)


@pytest.mark.parametrize("failures_per_h", [0.0, 0.2])
@pytest.mark.parametrize("policy_kind", POLICIES)
def test_simulated_moments_are_observed_and_decided_the_same(policy_kind: str, failures_per_h: float) -> None:
    num_seen = num_written = 0

    def check(snapshot: facts.Snapshot, decisions: list[Decision]) -> None:
        nonlocal num_seen, num_written
        num_seen += 1
        if num_seen % EVERY:
            return
        num_written += 1
        with transaction.atomic():
            rows = Rows(snapshot, watch.groups)
            rows.write()
            measures = Measures(
                work=snapshot.work,
                to_training_s={c.index: c.to_training_s for c in snapshot.cells if c.to_training_s is not None},
                to_rollout_s={c.index: c.to_rollout_s for c in snapshot.cells if c.to_rollout_s is not None},
            )
            observed = observe(rows.run.pk, measures)
            assert observed is not None
            expected = rows.expected()
            assert observed.snapshot == expected
            policy = policy_of(policy_kind)
            live = decide(observed.snapshot, policy, observed.snapshot.taken_at_s)
            assert live == decide(expected, policy, expected.taken_at_s)
            assert gist(live) == gist(decisions)
            transaction.set_rollback(True)

    watch = Watch(case(policy_kind, failures_per_h), listener=check)
    watch.run()
    assert num_written >= 5
