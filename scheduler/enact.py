"""Decisions to rows: each decision, its effect and its events in one transaction; wakes after the commit.

Rows may have moved on since the snapshot (a person paused the run, a cell died). Every write therefore repeats in
its condition what it relies on; a decision whose ground is gone changes nothing and is not stored.
Locks are taken in the order executions, groups, batch, run.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
from scheduler.core.decisions import Decision, Kind
from scheduler.core.snapshot import ROLLOUT, STOPPED, TRAINING, Cell
from scheduler.observe import Observation
from scheduler.rules import fingerprint
from trainers.actions.admit_group import admit_group
from trainers.actions.open_batch import open_batch
from trainers.actions.seal_batch import seal_batch
from trainers.facade import batch_in_progress

log = logging.getLogger(__name__)


class GroundGone(Exception):
    """What a decision relied on has changed since the snapshot. The next evaluation sees the new truth."""


#: Launches come in waves, a few per tick: one row per so many seconds tells enough, executions have times of their own.
LAUNCH_ROWS_EVERY_S = 2.0
#: A refusal that comes and goes is stored once per so many seconds, unless its cell moved meanwhile.
REFUSAL_ROWS_EVERY_S = 5.0


@dataclass
class Recorder:
    """Decides which decisions of one run get a row: all that move something, and refusals that are new."""

    refused_s: dict[tuple[object, ...], float] = field(default_factory=dict)  # when stored, by what they say
    refused_last: frozenset[object] = frozenset()
    launched_s: dict[Kind, float] = field(default_factory=dict)

    def news(self, decisions: Sequence[Decision], now_s: float) -> list[Decision]:
        """The decisions that are worth a row."""
        moved = {d.cell_index for d in decisions if d.accepted and d.cell_index is not None}
        self.refused_s = {key: at for key, at in self.refused_s.items() if key[1] not in moved}
        fresh = [d for d in decisions if (self._launch(d, now_s) if d.accepted else self._refusal(d, now_s))]
        self.refused_last = frozenset(d.repeats_as for d in decisions if not d.accepted)
        return fresh

    def _launch(self, decision: Decision, now_s: float) -> bool:
        if decision.kind not in (Kind.LAUNCH, Kind.LAUNCH_EVALUATION):
            return True
        if now_s - self.launched_s.get(decision.kind, float("-inf")) < LAUNCH_ROWS_EVERY_S:
            return False
        self.launched_s[decision.kind] = now_s
        return True

    def _refusal(self, decision: Decision, now_s: float) -> bool:
        key = decision.repeats_as
        if key is None or key in self.refused_last:
            return False
        if now_s - self.refused_s.get(key, float("-inf")) < REFUSAL_ROWS_EVERY_S:
            return False
        self.refused_s[key] = now_s
        return True


@dataclass
class Storing:
    """Numbers the rows of one evaluation of `decide`; the first one carries the snapshot."""

    run_id: int
    observation: Observation
    number: int = 0
    batch_id: int | None = None
    stored: list[models.Decision] = field(default_factory=list)

    def store(self, decisions: Sequence[Decision]) -> None:
        first = self.observation.next_decision + len(self.stored)
        rows = [
            models.Decision(
                run_id=self.run_id,
                number=first + place,
                evaluation_number=self.observation.next_decide,
                kind=decision.kind.value,
                cell_index=decision.cell_index,
                accepted=decision.accepted,
                reason_code=decision.reason_code,
                reason=decision.reason,
                params=decision.params,
                snapshot=None if self.stored or place else self._snapshot(),
            )
            for place, decision in enumerate(decisions)
        ]
        models.Decision.objects.bulk_create(rows)
        self.stored += rows
        told = [d for d in decisions if d.kind not in QUIET]
        if told:
            events.record_all(self.run_id, [(EventKind.DECISION_MADE, _told(first, d)) for d in told])

    def _snapshot(self) -> dict[str, Any]:
        return {**self.observation.snapshot.to_json(), "rules": fingerprint()}


#: Decisions whose effect is an event of its own; repeating them in the feed would only be noise.
QUIET = (Kind.LAUNCH, Kind.LAUNCH_EVALUATION, Kind.ADMIT_GROUP, Kind.SEAL_BATCH, Kind.OPEN_BATCH)


def _told(first: int, decision: Decision) -> dict[str, Any]:
    return {
        "number": first,
        "kind": decision.kind.value,
        "cell": decision.cell_index,
        "accepted": decision.accepted,
        "code": decision.reason_code,
        "reason": decision.reason,
    }


def enact(run: Run, observation: Observation, decisions: Sequence[Decision], news: Sequence[Decision]) -> int:
    """Carry out the accepted `decisions` in order, and store `news`; returns how many were carried out.

    Stops at the first decision whose ground is gone: those after it may rely on it.
    """
    storing, done = Storing(run.pk, observation), 0
    refusals = [d for d in news if not d.accepted]
    for decision in (d for d in decisions if d.accepted):
        try:
            with transaction.atomic():
                _EFFECTS[decision.kind](run, observation, decision, storing)
                if decision in news:
                    storing.store([decision])
            done += 1
        except (GroundGone, Refused) as gone:
            log.info("run %s: %s not carried out: %s", run.pk, decision.kind, gone)
            break
    if refusals:
        with transaction.atomic():
            storing.store(refusals)
    return done


Effect = Callable[[Run, Observation, Decision, Storing], None]


def _dispatch_burst(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    params = decision.params
    models.Burst.objects.create(
        run=run,
        number=params["number"],
        version=params["version"],
        num_batches=params["num_batches"],
        groups_per_batch=params["groups_per_batch"],
        executions_per_group=params["executions_per_group"],
        max_staleness=params["max_staleness"],
    )
    dispatch_training_groups(
        run,
        num_groups=params["num_batches"] * params["groups_per_batch"],
        executions_per_group=params["executions_per_group"],
        burst=params["number"],
    )
    still = Run.objects.filter(pk=run.pk, state=Run.State.RUNNING, version=params["version"], dispatch_held=False)
    _require(still.exists(), "the run was paused, held or stepped on")


def _launch(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    _queue(run, decision.params["count"], "training", None)


def _launch_evaluation(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    _queue(run, decision.params["count"], "evaluation", decision.params["evaluation"])


#: The oldest dispatched executions may start: a worker takes them by lease.
_QUEUE = """
UPDATE agents_execution SET state = 'queued', queued_at = now() WHERE id IN (
    SELECT e.id FROM agents_execution e JOIN agents_group g ON g.id = e.group_id
    WHERE e.run_id = %(run)s AND e.state = 'dispatched' AND g.kind = %(kind)s
        AND g.evaluation IS NOT DISTINCT FROM %(evaluation)s
        AND EXISTS (SELECT 1 FROM agents_run r WHERE r.id = %(run)s AND r.state = 'running')
    ORDER BY g.number, e.index LIMIT %(count)s FOR UPDATE OF e SKIP LOCKED)
"""


def _queue(run: Run, count: int, kind: str, evaluation: int | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_QUEUE, {"run": run.pk, "count": count, "kind": kind, "evaluation": evaluation})
        num_queued = cursor.rowcount
    _require(num_queued > 0, "no execution waits any more")
    wakes.wake(wakes.RUN_EXECUTION, times=num_queued)


def _switch(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    """The scheduler's wish; the cell's agent does it and reports (algorithms.md §10)."""
    _wish(run, _cell(observation, decision), decision.params["to_role"], decision.reason)


def _wish(run: Run, cell: Cell, role: str, reason: str, evaluation: int | None = None) -> None:
    rows = models.Cell.objects.filter(run=run, index=cell.index, epoch=cell.epoch, role=cell.role)
    changes: dict[str, Any] = {"desired_role": role}
    if evaluation is not None:
        changes["evaluation"] = evaluation
    _require(rows.update(**changes) == 1, f"cell {cell.index} is no longer in {cell.role}")
    if cell.role != role and role in (ROLLOUT, TRAINING):
        row = models.Cell.objects.only("pk").get(run=run, index=cell.index)
        models.RoleChange.objects.create(cell=row, epoch=cell.epoch, from_role=cell.role, to_role=role)
        payload = {"cell": cell.index, "from_role": cell.role, "to_role": role, "reason": reason}
        events.record(run.pk, EventKind.ROLE_CHANGE_STARTED, payload)
    tell_cells(run.pk)


def _drain(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    _wish(run, _cell(observation, decision), STOPPED, decision.reason)


def _start_cell(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    _wish(run, _cell(observation, decision), ROLLOUT, decision.reason)
    wakes.wake(wakes.LAUNCH_CELLS, run.pk)


def _open_batch(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    params = decision.params
    _require(Run.objects.filter(pk=run.pk, version=params["version"]).exists(), "the version has moved on")
    storing.batch_id = open_batch(run.pk, number=params["number"], burst=params["burst"], version=params["version"])


def _admit_group(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    burst = next(b for b in observation.snapshot.bursts if any(g.id == decision.params["group"] for g in b.ready))
    admit_group(
        _batch_id(run, storing), decision.params["group"], j_max=decision.params["j_max"],
        max_staleness=burst.max_staleness,
    )  # fmt: skip


def _seal_batch(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    seal_batch(_batch_id(run, storing))


def _batch_id(run: Run, storing: Storing) -> int:
    if storing.batch_id is None:
        storing.batch_id = batch_in_progress(run.pk)
    _require(storing.batch_id is not None, "no batch is in progress")
    assert storing.batch_id is not None
    return storing.batch_id


def _start_evaluation(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    params = decision.params
    _require(Run.objects.filter(pk=run.pk, version=params["version"]).exists(), "the version has moved on")
    groups = dispatch_evaluation_groups(run, evaluation=params["number"], num_tasks=params["num_tasks"])
    models.Evaluation.objects.create(run=run, number=params["number"], version=params["version"], num_tasks=len(groups))
    _reserve(run, observation, decision, storing)


def _reserve(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    _wish(run, _cell(observation, decision), ROLLOUT, decision.reason, evaluation=decision.params["number"])


def _cancel_evaluation(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    cancel_evaluation(run, decision.params["number"], decision.reason)


def _raise_alarm(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    Run.objects.filter(pk=run.pk).update(dispatch_held=True)
    payload = {"code": decision.params["alarm"], "message": decision.reason, "severity": "bad"}
    events.record(run.pk, EventKind.ALARM_RAISED, payload)


def _finish_run(run: Run, observation: Observation, decision: Decision, storing: Storing) -> None:
    done = Run.objects.filter(pk=run.pk, state=Run.State.RUNNING).update(
        state=Run.State.FINISHED, state_reason="", finished_at=timezone.now()
    )
    _require(done == 1, "the run is no longer running")
    models.Cell.objects.filter(run=run).update(desired_role=STOPPED, evaluation=None)
    events.record(run.pk, EventKind.RUN_FINISHED, {"version": observation.snapshot.version})
    wakes.wake(wakes.ENFORCE_RETENTION)
    tell_cells(run.pk)


_EFFECTS: dict[Kind, Effect] = {
    Kind.DISPATCH_BURST: _dispatch_burst,
    Kind.LAUNCH: _launch,
    Kind.LEAVE_ROLLOUT: _switch,
    Kind.RETURN_TO_ROLLOUT: _switch,
    Kind.DRAIN_CELL: _drain,
    Kind.START_CELL: _start_cell,
    Kind.OPEN_BATCH: _open_batch,
    Kind.ADMIT_GROUP: _admit_group,
    Kind.SEAL_BATCH: _seal_batch,
    Kind.START_EVALUATION: _start_evaluation,
    Kind.RESERVE_CELL: _reserve,
    Kind.LAUNCH_EVALUATION: _launch_evaluation,
    Kind.CANCEL_EVALUATION: _cancel_evaluation,
    Kind.RAISE_ALARM: _raise_alarm,
    Kind.FINISH_RUN: _finish_run,
}


def _cell(observation: Observation, decision: Decision) -> Cell:
    return next(cell for cell in observation.snapshot.cells if cell.index == decision.cell_index)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise GroundGone(otherwise)
