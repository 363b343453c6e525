"""The loop drives a run to its end through real rows: Postgres, leases, ledger, cell agents' SQL."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels.layers import get_channel_layer
from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from agents import eventlog
from agents.models import Execution, Group, Run, RunEvent
from scheduler import wakes
from scheduler.actions.release_dispatch import release_dispatch
from scheduler.actions.release_override import release_override
from scheduler.actions.set_override import set_override
from scheduler.loop import MAX_FAILURES, Loop
from scheduler.models import Burst, Cell, Decision, Evaluation, RoleChange
from scheduler.replay import replay
from tests.scheduler.standin import StandIn, make_run
from trainers.models import Batch, MicroStep

State = Run.State


class Clock:
    """Monotonic seconds that pass only when told."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Site:
    """A loop and a stand-in machine, in lockstep."""

    def __init__(self, run: Run, connection: psycopg.Connection, sent: list[tuple[str, tuple[object, ...]]]) -> None:
        self.run, self.sent = run, sent
        self.clock = Clock()
        self.loop = Loop(clock=self.clock)
        self.machine = StandIn(run, connection, Random(3))

    def until(self, reached: Callable[[Run], bool], what: str, max_rounds: int = 600) -> Run:
        for _ in range(max_rounds):
            self.clock.now_s += 1.0
            self.loop.tick()
            while self.sent:
                task, _ = self.sent.pop()
                if task == wakes.LAUNCH_CELLS:
                    self.machine.launch()
            self.machine.round()
            run = Run.objects.get(pk=self.run.pk)
            assert 0 <= run.finished <= run.launched <= run.dispatched
            if reached(run):
                return run
        reasons = Decision.objects.filter(run=self.run).order_by("-number").values_list("reason", flat=True)[:8]
        raise AssertionError(f"in vain: {what}; run is {run.state} {run.state_reason}; {list(reasons)}")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[object, ...]]]:
    """Wakes go to this list: no worker listens to the broker here, the stand-in looks at the rows."""
    messages: list[tuple[str, tuple[object, ...]]] = []
    monkeypatch.setattr(wakes, "_send", lambda task, arguments, times: messages.append((task, arguments)))
    return messages


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as opened:
        yield opened


@pytest.fixture
def site(connection: psycopg.Connection, sent: list[tuple[str, tuple[object, ...]]]) -> Callable[..., Site]:
    return lambda **settings: Site(make_run(**settings), connection, sent)


@pytest.mark.parametrize(
    ("policy_kind", "num_cells"),
    [("elastic", 1), ("elastic", 2), ("elastic", 3), ("colocate", 2), ("async-barrier", 2), ("async-streamed", 3)],
)
def test_a_queued_run_is_started_trained_evaluated_and_finished(
    site: Callable[..., Site], policy_kind: str, num_cells: int
) -> None:
    here = site(policy_kind=policy_kind, cells=num_cells)
    run = here.until(lambda run: run.state == State.FINISHED, "the run finishes")
    assert run.version == 3
    assert run.dispatched == run.launched == run.finished == 3 * 4 * 2
    evaluations = Evaluation.objects.filter(run=run).order_by("version")
    assert [e.version for e in evaluations] == [0, 2, 3]
    assert all(e.state == "finished" and e.num_scored == 4 and set(e.by_kind) == set(KINDS) for e in evaluations)
    assert [b.state for b in Batch.objects.filter(run=run).order_by("number")] == ["stepped"] * 3
    assert not MicroStep.objects.filter(batch__run=run, counted_at=None).exists()
    here.until(lambda run: not Cell.objects.filter(run=run).exclude(role="stopped").exists(), "cells stop")
    again = replay(run.pk)
    assert again.num_evaluations > 10
    assert not again.differences
    assert not again.num_by_other_rules
    kinds = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", "kind"))
    assert [seq for seq, _ in kinds] == list(range(1, len(kinds) + 1))
    assert Counter(kind for _, kind in kinds)["run_finished"] == 1


KINDS = ("append", "copy", "read", "write")


def test_tokens_are_never_older_than_the_bound_and_evaluations_sample_their_own_version(
    site: Callable[..., Site],
) -> None:
    here = site(cells=2, steps=4, eval_every_steps=1, eval_tasks=2)
    run = here.until(lambda run: run.state == State.FINISHED, "the run finishes")
    for group in Group.objects.filter(run=run, kind="training"):
        assert group.state == Group.State.CONSUMED
        oldest = min(group.executions.values_list("min_version", flat=True))
        assert group.batch - 1 - oldest <= run.config["max_staleness"]
    evaluated = Execution.objects.filter(run=run, group__kind="evaluation").select_related("group")
    versions = dict(Evaluation.objects.filter(run=run).values_list("number", "version"))
    assert {e.min_version - versions[e.group.evaluation] for e in evaluated} == {0}


def test_a_satellite_joins_a_batch_in_progress(site: Callable[..., Site]) -> None:
    here = site(cells=2, eval_every_steps=0, rho_min=0.25)
    run = here.run

    def joined(_: Run) -> bool:
        return RoleChange.objects.filter(cell__run=run, cell__is_core=False, to_role="training").exists()

    here.until(joined, "the satellite leaves rollout")
    batch = Batch.objects.get(run=run, state__in=["open", "sealed"])
    assert MicroStep.objects.filter(batch=batch, counted_at__isnull=False).exists(), "the core was at work already"
    join = Decision.objects.get(run=run, kind="leave_rollout", accepted=True, reason_code="join")
    assert "micro-steps" in join.reason
    here.until(lambda run: run.version >= batch.number + 1, "its batch and the next step")
    assert MicroStep.objects.filter(batch__run=run, cell_index=1, counted_at__isnull=False).exists()


def test_the_first_leave_is_refused_with_the_numbers_of_the_capacity_rule(site: Callable[..., Site]) -> None:
    here = site(cells=2, concurrency_per_cell=8, eval_every_steps=0)
    here.until(lambda run: run.finished > 0, "some executions end")
    refusal = Decision.objects.filter(run=here.run, accepted=False, reason_code="capacity", cell_index=0).first()
    assert refusal is not None
    assert "1 x 8 < W 1" in refusal.reason


def test_a_silent_satellite_is_lost_and_comes_back_and_its_micro_steps_are_done_once(
    site: Callable[..., Site],
) -> None:
    here = site(cells=2, eval_every_steps=0)
    here.until(lambda run: bool(here.machine.claims.get(1)), "the satellite has claimed")
    here.machine.die(1)
    here.until(lambda run: run.state == State.FINISHED, "the run finishes")
    kinds = set(RunEvent.objects.filter(run=here.run).values_list("kind", flat=True))
    assert {"cell_lost", "cell_recovered"} <= kinds
    assert not MicroStep.objects.filter(batch__run=here.run, counted_at=None).exists()
    assert not RoleChange.objects.filter(cell__run=here.run, state="started").exists()


def test_a_lost_core_starts_from_the_checkpoint_and_the_open_batch_is_reset(site: Callable[..., Site]) -> None:
    here = site(cells=2, eval_every_steps=0)
    here.until(
        lambda run: MicroStep.objects.filter(batch__run=run, batch__number=2, counted_at__isnull=False).exists(),
        "the second batch is under way",
    )
    here.machine.die(0)
    run = here.until(lambda run: run.state == State.FINISHED, "the run finishes")
    assert run.version == 3


def test_a_cell_that_cannot_start_pauses_the_run_with_its_error_until_it_is_mended(site: Callable[..., Site]) -> None:
    here = site(cells=2)
    here.machine.broken.add(1)
    run = here.until(lambda run: run.state == State.PAUSED, "the run pauses")
    assert run.state_reason == "cell 1 cannot start: no memory for the engine"
    here.machine.broken.clear()
    run = here.until(lambda run: run.state == State.RUNNING, "the run goes on")
    assert run.state_reason == ""
    here.until(lambda run: run.state == State.FINISHED, "the run finishes")


def test_a_person_pauses_and_the_run_stays_paused(site: Callable[..., Site]) -> None:
    here = site(cells=2)
    here.until(lambda run: run.launched > 4, "some executions run")
    Run.objects.filter(pk=here.run.pk).update(state=State.PAUSED)
    here.until(lambda run: not Execution.objects.filter(run=run, state="running").exists(), "running ones finish")
    launched = Run.objects.get(pk=here.run.pk).launched
    for _ in range(10):
        here.until(lambda run: True, "a round")
    assert Run.objects.get(pk=here.run.pk).launched == launched


def test_a_stopped_run_owes_nothing_and_its_cells_stop(site: Callable[..., Site]) -> None:
    here = site(cells=2)
    here.until(lambda run: run.launched > 4, "some executions run")
    Run.objects.filter(pk=here.run.pk).update(state=State.STOPPING)
    run = here.until(lambda run: run.state == State.STOPPED, "the run stops")
    assert run.dispatched == run.finished
    assert set(Cell.objects.filter(run=run).values_list("role", flat=True)) == {"stopped"}


def test_a_second_run_waits_for_the_machine(site: Callable[..., Site]) -> None:
    here = site(cells=1, steps=2, eval_every_steps=0)
    second = make_run(cells=1, steps=2, eval_every_steps=0)
    here.until(lambda run: run.state == State.FINISHED, "the first run finishes")
    assert Run.objects.get(pk=second.pk).state == State.QUEUED
    here.until(lambda _: Run.objects.get(pk=second.pk).state == State.STARTING, "the second run starts")
    assert Cell.objects.get(run=here.run).role == "stopped"


def test_void_groups_in_a_row_hold_dispatch_until_somebody_releases_it(site: Callable[..., Site]) -> None:
    here = site(cells=2, eval_every_steps=0, max_void_groups=4)
    here.machine.unresolved_share = 1.0
    run = here.until(lambda run: run.dispatch_held, "the alarm holds dispatch")
    assert RunEvent.objects.filter(run=run, kind="alarm_raised", payload__code="void_groups").exists()
    num_bursts = Burst.objects.filter(run=run).count()
    here.machine.unresolved_share = 0.0
    release_dispatch(run, user=None, reason="the evaluator works again")
    here.until(lambda run: run.state == State.FINISHED, "the run finishes")
    assert Burst.objects.filter(run=run).count() > num_bursts


def test_an_execution_whose_worker_died_starts_again_as_the_next_attempt(
    site: Callable[..., Site], connection: psycopg.Connection
) -> None:
    here = site(cells=2, eval_every_steps=0)
    here.until(lambda run: Execution.objects.filter(run=run, state="running").exists(), "one runs")
    victim = Execution.objects.filter(run=here.run, state="running").first()
    assert victim is not None
    connection.execute(
        "UPDATE agents_execution SET lease_expires_at = now() - interval '1 second' WHERE id = %s", (victim.pk,)
    )
    here.until(lambda run: Execution.objects.get(pk=victim.pk).attempt == 2, "its second attempt")
    run = here.until(lambda run: run.state == State.FINISHED, "the run finishes")
    assert run.launched == run.dispatched
    assert RunEvent.objects.filter(run=run, kind="execution_retried").count() == 1


def test_a_drained_cell_stops_and_starts_again_when_the_order_ends(
    site: Callable[..., Site], django_user_model: type[AbstractBaseUser]
) -> None:
    here = site(cells=2, eval_every_steps=0)
    here.until(lambda run: run.version == 1, "a first step")
    user = django_user_model.objects.create(username="ada")
    order = set_override(
        here.run,
        user=user,
        kind="drain",
        cell_index=1,
        reason="new disk",
        expires_at=timezone.now() + timedelta(hours=1),
    )
    here.until(lambda run: Cell.objects.get(run=run, index=1).role == "stopped", "the cell stops")
    here.until(lambda run: run.version == 2, "the core goes on alone")
    assert Cell.objects.get(run=here.run, index=1).role == "stopped"
    release_override(order, user=user)
    here.until(lambda run: Cell.objects.get(run=run, index=1).role == "rollout", "the cell is back")
    here.until(lambda run: run.state == State.FINISHED, "the run finishes")


def test_events_of_other_processes_ring_the_bell(site: Callable[..., Site], connection: psycopg.Connection) -> None:
    here = site(cells=1, eval_every_steps=0)
    here.until(lambda run: run.state == State.RUNNING, "the run is running")
    seq = eventlog.append(connection, here.run.pk, "micro_step_claimed", {"batch": 1})

    async def ring() -> dict[str, Any]:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(f"run.{here.run.pk}", channel)
        await sync_to_async(here.loop.tick)()
        heard = await asyncio.wait_for(layer.receive(channel), 20)
        await layer.flush()
        return heard

    assert async_to_sync(ring)() == {"type": "run.event", "run": here.run.pk, "seq": seq}


def test_a_tick_that_always_fails_pauses_the_run_with_the_error(site: Callable[..., Site]) -> None:
    here = site(cells=1, eval_every_steps=0)
    run = here.until(lambda run: run.state == State.RUNNING, "the run is running")
    Run.objects.filter(pk=run.pk).update(policy_kind="magic")
    for _ in range(MAX_FAILURES):
        with pytest.raises(KeyError) as error:
            here.loop.tick()
        here.loop.failed(error.value)
    run.refresh_from_db()
    assert run.state == State.PAUSED
    assert "policy_kind 'magic' is unknown" in run.state_reason
