"""Decisions to rows: each decision, its effect and its events in one transaction; wakes after the commit.

Rows may have moved on since the snapshot (a person paused the run, a cell died). Every write therefore repeats in
its condition what it relies on; a decision whose ground is gone changes nothing and is not stored.
Locks are taken in the order executions, groups, batch, run.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from agents import events
from agents.actions.dispatch import dispatch_evaluation_groups, dispatch_training_groups
from agents.actions.errors import Refused
from agents.events import EventKind
from agents.models import Run
from scheduler import models, wakes
from scheduler.actions.end_evaluation import cancel_evaluation
from scheduler.cells import tell_cells
from scheduler.core.decisions import (
    AdmitGroup,
    CancelEvaluation,
    Decision,
    DispatchBurst,
    Kind,
    Launch,
    LaunchEvaluation,
    OpenBatch,
    RaiseAlarm,
    ReserveCell,
    StartEvaluation,
)
from scheduler.core.snapshot import ROLLOUT, STOPPED, TRAINING, Cell
from scheduler.decision_rows import DecisionRows
from scheduler.observe import Observation
from trainers.actions.admit_group import admit_group
from trainers.actions.open_batch import open_batch
from trainers.actions.seal_batch import seal_batch
from trainers.facade import batch_in_progress

log = logging.getLogger(__name__)


class GroundGone(Exception):
    """What a decision relied on has changed since the snapshot. The next evaluation sees the new truth."""


@dataclass
class Work:
    """What the effects of one evaluation share."""

    run: Run
    observation: Observation
    batch_id: int | None = None


def enact(run: Run, observation: Observation, decisions: Sequence[Decision], worth_storing: Sequence[Decision]) -> int:
    """Carry out the accepted `decisions` in order, store `worth_storing` of them; returns how many were carried out.

    Stops at the first decision whose ground is gone: those after it may rely on it.
    """
    work, done = Work(run, observation), 0
    rows = DecisionRows(run.pk, observation)
    refusals = [d for d in worth_storing if not d.accepted]
    for decision in (d for d in decisions if d.accepted):
        try:
            with transaction.atomic():
                _EFFECTS[decision.kind](work, decision)
                if decision in worth_storing:
                    rows.store([decision])
            done += 1
        except (GroundGone, Refused) as gone:
            log.info("run %s: %s not carried out: %s", run.pk, decision.kind, gone)
            break
    if refusals:
        with transaction.atomic():
            rows.store(refusals)
    return done


Effect = Callable[[Work, Decision], None]


def _dispatch_burst(work: Work, decision: Decision) -> None:
    burst = decision.expect(DispatchBurst)
    models.Burst.objects.create(run=work.run, **asdict(burst))
    dispatch_training_groups(
        work.run,
        num_groups=burst.num_groups,
        executions_per_group=burst.executions_per_group,
        burst=burst.number,
    )
    still = Run.objects.filter(pk=work.run.pk, state=Run.State.RUNNING, version=burst.version, dispatch_held=False)
    _require(still.exists(), "the run was paused, held or stepped on")


def _launch(work: Work, decision: Decision) -> None:
    _queue(work.run, decision.expect(Launch).count, "training", None)


def _launch_evaluation(work: Work, decision: Decision) -> None:
    launch = decision.expect(LaunchEvaluation)
    _queue(work.run, launch.count, "evaluation", launch.evaluation)


#: The oldest dispatched executions may start: a worker takes them by lease.
_QUEUE = """
WITH oldest AS MATERIALIZED (  -- once: a join may read a subquery again for each row, and each time pick others
    SELECT e.id FROM agents_execution e JOIN agents_group g ON g.id = e.group_id
    WHERE e.run_id = %(run)s AND e.state = 'dispatched' AND g.kind = %(kind)s
        AND g.evaluation IS NOT DISTINCT FROM %(evaluation)s
        AND EXISTS (SELECT 1 FROM agents_run r WHERE r.id = %(run)s AND r.state = 'running')
    ORDER BY g.number, e.index LIMIT %(count)s FOR NO KEY UPDATE OF e SKIP LOCKED
)
UPDATE agents_execution SET state = 'queued', queued_at = now() WHERE id IN (SELECT id FROM oldest)
"""


def _queue(run: Run, count: int, kind: str, evaluation: int | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_QUEUE, {"run": run.pk, "count": count, "kind": kind, "evaluation": evaluation})
        num_queued = cursor.rowcount
    _require(num_queued > 0, "no execution waits any more")
    wakes.wake_for(wakes.RUN_EXECUTION, num_queued)


def _leave_rollout(work: Work, decision: Decision) -> None:
    _set_desired_role(work, decision, TRAINING)


def _return_to_rollout(work: Work, decision: Decision) -> None:
    _set_desired_role(work, decision, ROLLOUT)


def _set_desired_role(work: Work, decision: Decision, role: str, evaluation: int | None = None) -> None:
    """The cell's agent carries it out and reports (docs/algorithms.md §10)."""
    run, cell = work.run, _cell(work, decision)
    rows = models.Cell.objects.filter(run=run, index=cell.index, epoch=cell.epoch, role=cell.role)
    changes: dict[str, Any] = {"desired_role": role}
    if evaluation is not None:
        changes["evaluation"] = evaluation
    _require(rows.update(**changes) == 1, f"cell {cell.index} is no longer in {cell.role}")
    if {cell.role, role} == {ROLLOUT, TRAINING}:
        row = models.Cell.objects.only("pk").get(run=run, index=cell.index)
        models.RoleChange.objects.create(cell=row, epoch=cell.epoch, from_role=cell.role, to_role=role)
        payload = {"cell": cell.index, "from_role": cell.role, "to_role": role, "reason": decision.reason}
        events.record(run.pk, EventKind.ROLE_CHANGE_STARTED, payload)
    tell_cells(run.pk)


def _drain(work: Work, decision: Decision) -> None:
    _set_desired_role(work, decision, STOPPED)


def _start_cell(work: Work, decision: Decision) -> None:
    _set_desired_role(work, decision, ROLLOUT)
    wakes.wake(wakes.LAUNCH_CELLS, work.run.pk)


def _open_batch(work: Work, decision: Decision) -> None:
    batch = decision.expect(OpenBatch)
    _require(Run.objects.filter(pk=work.run.pk, version=batch.version).exists(), "the version has moved on")
    work.batch_id = open_batch(work.run.pk, number=batch.number, burst=batch.burst, version=batch.version)


def _admit_group(work: Work, decision: Decision) -> None:
    admitted = decision.expect(AdmitGroup)
    burst = next(b for b in work.observation.snapshot.bursts if any(g.id == admitted.group for g in b.ready))
    admit_group(_batch_id(work), admitted.group, j_max=admitted.j_max, max_staleness=burst.max_staleness)


def _seal_batch(work: Work, decision: Decision) -> None:
    seal_batch(_batch_id(work))


def _batch_id(work: Work) -> int:
    if work.batch_id is None:
        work.batch_id = batch_in_progress(work.run.pk)
    _require(work.batch_id is not None, "no batch is in progress")
    assert work.batch_id is not None
    return work.batch_id


def _start_evaluation(work: Work, decision: Decision) -> None:
    due = decision.expect(StartEvaluation)
    _require(Run.objects.filter(pk=work.run.pk, version=due.version).exists(), "the version has moved on")
    groups = dispatch_evaluation_groups(work.run, evaluation=due.number, num_tasks=due.num_tasks)
    models.Evaluation.objects.create(run=work.run, number=due.number, version=due.version, num_tasks=len(groups))
    _set_desired_role(work, decision, ROLLOUT, evaluation=due.number)


def _reserve_cell(work: Work, decision: Decision) -> None:
    _set_desired_role(work, decision, ROLLOUT, evaluation=decision.expect(ReserveCell).number)


def _cancel_evaluation(work: Work, decision: Decision) -> None:
    cancel_evaluation(work.run, decision.expect(CancelEvaluation).number, decision.reason)


def _raise_alarm(work: Work, decision: Decision) -> None:
    Run.objects.filter(pk=work.run.pk).update(dispatch_held=True)
    payload = {"code": decision.expect(RaiseAlarm).alarm, "message": decision.reason, "severity": "bad"}
    events.record(work.run.pk, EventKind.ALARM_RAISED, payload)


def _finish_run(work: Work, decision: Decision) -> None:
    done = Run.objects.filter(pk=work.run.pk, state=Run.State.RUNNING).update(
        state=Run.State.FINISHED, state_reason="", finished_at=timezone.now()
    )
    _require(done == 1, "the run is no longer running")
    models.Cell.objects.filter(run=work.run).update(desired_role=STOPPED, evaluation=None)
    events.record(work.run.pk, EventKind.RUN_FINISHED, {"version": work.observation.snapshot.version})
    wakes.wake(wakes.ENFORCE_RETENTION)
    tell_cells(work.run.pk)


_EFFECTS: dict[Kind, Effect] = {
    Kind.DISPATCH_BURST: _dispatch_burst,
    Kind.LAUNCH: _launch,
    Kind.LEAVE_ROLLOUT: _leave_rollout,
    Kind.RETURN_TO_ROLLOUT: _return_to_rollout,
    Kind.DRAIN_CELL: _drain,
    Kind.START_CELL: _start_cell,
    Kind.OPEN_BATCH: _open_batch,
    Kind.ADMIT_GROUP: _admit_group,
    Kind.SEAL_BATCH: _seal_batch,
    Kind.START_EVALUATION: _start_evaluation,
    Kind.RESERVE_CELL: _reserve_cell,
    Kind.LAUNCH_EVALUATION: _launch_evaluation,
    Kind.CANCEL_EVALUATION: _cancel_evaluation,
    Kind.RAISE_ALARM: _raise_alarm,
    Kind.FINISH_RUN: _finish_run,
}


def _cell(work: Work, decision: Decision) -> Cell:
    return next(cell for cell in work.observation.snapshot.cells if cell.index == decision.cell_index)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise GroundGone(otherwise)
