"""`manage.py verify_run`: a healthy run passes, and every invariant can fail (docs/reliability.md "Invariants")."""

import json
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from records import DONE, make_run, record, record_conversation, scored

from agents.actions.finish_execution import finish_execution
from agents.core.outcome import Reason, Status, Verdict
from agents.core.roles import Role
from agents.invariants import Invariant
from agents.models import Group, Run
from gyreweb.management.commands.verify_run import ALL
from scheduler.models import Burst, Cell, Decision
from scheduler.observe import observe
from scheduler.rules import fingerprint
from trainers.actions.admit_group import admit_group
from trainers.actions.seal_batch import seal_batch
from trainers.models import Batch, Checkpoint, HandIn, MicroStep, WeightVersion

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    """A run after its first step: two groups consumed, one in the next batch, a no-work and an unresolved execution."""
    made = make_run()
    for index in range(2):
        Cell.objects.create(run=made.run, index=index, is_core=index == 0, epoch=1)
    Burst.objects.create(
        run=made.run, number=1, version=0, num_groups=4, groups_per_batch=4, executions_per_group=3, max_staleness=1
    )
    groups = [made.group(3) for _ in range(4)]
    for group in groups[:3]:
        for execution in group.executions.order_by("index"):
            record_conversation(execution)
            record(execution, 3, [60, 61], [9, 9], role=Role.SUB_AGENT)
            verdict = scored(execution.index / 2)
            if group is groups[0] and execution.index == 1:
                verdict = Verdict(Status.NO_WORK)
            if group is groups[1] and execution.index == 1:
                verdict = Verdict(Status.UNRESOLVED, reason_code=Reason.SANDBOX_LOST)
            finish_execution(execution.pk, 1, verdict, DONE)
    step(made.batch(), groups[:2])
    Run.objects.update(version=1)
    admit_group(made.batch(number=2, version=1).pk, groups[2].pk)
    return made.run


def step(batch: Batch, groups: list[Group]) -> None:
    for group in groups:
        admit_group(batch.pk, group.pk)
    seal_batch(batch.pk)
    count = MicroStep.objects.filter(batch=batch).count()
    hand_in = HandIn.objects.create(
        batch=batch, hand_in_id=uuid4(), cell_index=1, epoch=1, num_micro_steps=count, state=HandIn.State.COUNTED
    )
    MicroStep.objects.filter(batch=batch).update(cell_index=1, epoch=1, hand_in=hand_in, counted_at=timezone.now())
    Batch.objects.filter(pk=batch.pk).update(state=Batch.State.STEPPED)
    Group.objects.filter(batch=batch.number).update(state=Group.State.CONSUMED)
    for version in range(2):
        WeightVersion.objects.create(run=batch.run, version=version, cell_index=0, epoch=1, manifest={})
        Checkpoint.objects.create(run=batch.run, version=version, path="v", sha256="0", num_bytes=1)


def verify(run: Run) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("verify_run", str(run.pk), stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def test_a_healthy_run_breaks_nothing(run: Run) -> None:
    code, text = verify(run)
    assert code == 0, text
    assert text.count("ok     ") == len(ALL)
    assert f"{len(ALL)} of {len(ALL)} invariants hold" in text


def test_a_run_that_has_not_started_breaks_nothing() -> None:
    assert verify(make_run().run)[0] == 0


#: Statements that break exactly what the name says; constraints that would refuse them are dropped first.
BREAKERS: dict[str, str] = {
    "counters_in_order": (
        "ALTER TABLE agents_run DROP CONSTRAINT run_finished_le_launched; UPDATE agents_run SET finished = launched + 1"
    ),
    "counters_count_rows": "UPDATE agents_run SET finished = finished - 1",
    "events_without_gaps": "DELETE FROM agents_runevent WHERE seq = 2",
    "call_recorded_once": (
        "ALTER TABLE agents_call DROP CONSTRAINT call_number_once_per_attempt; "
        "UPDATE agents_call SET number = 0, parent_number = NULL, prefix_tokens = 0 WHERE number = 1"
    ),
    "call_extends_a_recorded_call": "UPDATE agents_call SET prefix_tokens = 99, input_tokens = 101 WHERE number = 1",
    "sealed_execution_keeps_its_calls": (
        "DELETE FROM agents_call WHERE id = (SELECT max(id) FROM agents_call WHERE number = 3)"
    ),
    "execution_ends_once": (
        "UPDATE agents_runevent SET kind = 'execution_finished', payload = (SELECT payload FROM agents_runevent "
        "WHERE kind = 'execution_finished' ORDER BY seq LIMIT 1) WHERE kind = 'batch_sealed'"
    ),
    "reward_exactly_where_it_votes": (
        "ALTER TABLE agents_execution DROP CONSTRAINT unresolved_is_not_zero; "
        "UPDATE agents_execution SET reward = 0 WHERE outcome = 'unresolved'"
    ),
    "no_key_outlives_its_execution": (
        r"UPDATE agents_execution SET key_hash = '\x00' WHERE id = (SELECT min(id) FROM agents_execution)"
    ),
    "old_attempts_are_not_trained": "UPDATE agents_draw SET attempt = 2",
    "group_closes_with_its_last_execution": (
        "UPDATE agents_group SET state = 'ready' WHERE id = (SELECT max(id) FROM agents_group)"
    ),
    "nothing_crosses_runs_or_projects": (
        "INSERT INTO agents_taskset (name, path, digest, created_at) VALUES ('theirs', '/', '1', now()); "
        "UPDATE agents_task SET task_set_id = (SELECT max(id) FROM agents_taskset)"
    ),
    "token_trained_once": (
        "UPDATE agents_trajectory t SET leaf_call = f.leaf_call, targets = f.targets, num_targets = f.num_targets "
        "FROM agents_trajectory f WHERE f.execution_id = t.execution_id AND f.number = 0 AND t.number = 1"
    ),
    "only_sampled_tokens_trained": "UPDATE agents_trajectory SET targets = '[[0, 9]]' WHERE num_targets = 9",
    "draws_replay": "UPDATE agents_draw SET random = 0.25 WHERE number = 0",
    "micro_step_counted_exactly_once": "UPDATE trainers_microstep SET hand_in_id = NULL",
    "hand_in_counts_what_it_summed": "UPDATE trainers_handin SET num_micro_steps = num_micro_steps + 1",
    "version_counts_steps": "UPDATE agents_run SET version = 2",
    "version_has_checkpoint_and_weights": "DELETE FROM trainers_checkpoint WHERE version = 1",
    "batch_holds_its_groups": "UPDATE trainers_batch SET num_votes = num_votes - 1 WHERE state = 'stepped'",
    "micro_steps_hold_the_trajectories": (
        "DELETE FROM trainers_microstep WHERE batch_id = (SELECT id FROM trainers_batch WHERE state = 'open')"
    ),
    "execution_weighs_one": (
        "UPDATE agents_trajectory SET num_targets = 0 WHERE execution_id = (SELECT min(id) FROM agents_execution)"
    ),
    "one_core": (
        "ALTER TABLE scheduler_cell DROP CONSTRAINT IF EXISTS one_core_per_run; DROP INDEX IF EXISTS one_core_per_run; "
        "UPDATE scheduler_cell SET is_core = true"
    ),
    "one_core_per_epoch": "UPDATE trainers_weightversion SET epoch = 2 WHERE version = 0",
    "burst_keeps_its_size": "UPDATE scheduler_burst SET num_groups = 8",
    "staleness_bound_holds": "UPDATE trainers_batch SET version = 9 WHERE state = 'open'",
    "decisions_replay": "",
}


@pytest.mark.parametrize("invariant", ALL, ids=lambda invariant: invariant.name)
def test_every_invariant_can_be_broken(invariant: Invariant, run: Run) -> None:
    if invariant.name == "decisions_replay":
        store_a_decision_that_nothing_makes(run)
    else:
        break_by(BREAKERS[invariant.name])
    assert invariant.broken_by(run.pk)


def test_a_broken_run_ends_with_exit_code_1_and_shows_the_rows(run: Run) -> None:
    break_by(BREAKERS["version_has_checkpoint_and_weights"])
    code, text = verify(run)
    assert code == 1
    lines = text.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("BROKEN"))
    assert lines[at].startswith("BROKEN version_has_checkpoint_and_weights: every version")
    assert json.loads(lines[at + 1])["checkpoint"] is None
    assert lines[-1] == f"{len(ALL) - 1} of {len(ALL)} invariants hold"


def break_by(statements: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(statements)


def store_a_decision_that_nothing_makes(run: Run) -> None:
    observation = observe(run.pk)
    assert observation is not None
    Decision.objects.create(
        run=run,
        number=1,
        evaluation_number=1,
        kind="switch",
        cell_index=0,
        accepted=True,
        reason_code="made_up",
        reason="nothing",
        snapshot=observation.snapshot.to_json() | {"rules": fingerprint()},
    )


def test_every_invariant_has_a_breaker() -> None:
    assert list(BREAKERS) == [invariant.name for invariant in ALL]
