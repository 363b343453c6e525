"""Have the evaluator run again on what an execution left: a request with an owner and a reason (docs/algorithms.md §5).

The verdict becomes a new row beside the old ones. It counts for training only while no batch has admitted the group;
what was admitted never changes. Rows are locked in the order execution, group, run.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import current_app
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from agents import events
from agents.actions.enforce_retention import workspace_days
from agents.actions.errors import NotFound, Refused, check_reason
from agents.actions.finish_execution import harness_end, judged, write_assessment
from agents.config import AgentSettings
from agents.core import outcome
from agents.core.advantage import mean_and_std
from agents.core.outcome import Outcome, Result, Verdict
from agents.models import Assessment, Execution, Group, KeptWorkspace, Reassessment

log = logging.getLogger(__name__)

#: Reasons of executions that never came to an evaluator.
NEVER_STARTED = (outcome.Reason.SANDBOX_NEVER_HEALTHY, outcome.Reason.HARNESS_NEVER_HEALTHY)

EVALUATE = "agents.tasks.evaluate_execution"


def request_reassessment(execution: Execution, *, user: AbstractBaseUser | None, reason: str) -> Reassessment:
    """Queue another assessment. Raises Refused when there is nothing to assess, with what would have to be so."""
    check_reason(reason)
    with transaction.atomic():
        row = Execution.objects.select_for_update(no_key=True).select_related("run").filter(pk=execution.pk).first()
        if row is None:
            raise NotFound(f"execution {execution.pk} does not exist")
        refusal = why_not(row)
        if refusal:
            raise Refused(refusal)
        if row.reassessments.filter(state__in=(Reassessment.State.QUEUED, Reassessment.State.RUNNING)).exists():
            raise Refused(f"execution {row.pk} is being assessed again already; wait for that verdict")
        request = Reassessment.objects.create(execution=row, attempt=row.attempt, owner=user, reason=reason)
        payload = {"execution": row.pk, "by": user.get_username() if user else "", "reason": reason}
        events.record(row.run_id, events.EventKind.REASSESSMENT_REQUESTED, payload)
        transaction.on_commit(wake, robust=True)
    return request


def why_not(execution: Execution) -> str:
    """Why this execution cannot be assessed again; empty when it can."""
    name = f"execution {execution.pk}"
    if execution.run.imported_from:
        return f"{name} was imported from an export, which holds no files: assess it again where it ran"
    if execution.state != Execution.State.FINISHED:
        return f"{name} is {execution.state}; only a finished one can be assessed again"
    kept = KeptWorkspace.objects.filter(execution=execution, attempt=execution.attempt).first()
    days = workspace_days(execution.run)
    if kept is None:
        if not days:
            return f"nothing of {name} was kept: the run's retain_workspaces is 0"
        if execution.reason_code in NEVER_STARTED:
            return f"nothing of {name} was kept: it ended ({execution.reason_code}) before there was work to see"
        return f"nothing of {name} was kept when it was evaluated"
    if kept.deleted_at:
        why = kept.problem or f"retain_workspaces is {days:g} days"
        return f"what {name} left is gone since {kept.deleted_at:%Y-%m-%d %H:%M} UTC: {why}"
    if kept.problem:
        return f"what {name} left was not kept: {kept.problem}"
    return ""


def finish_reassessment(request_id: int, verdict: Verdict, flags: tuple[str, ...] = ()) -> Reassessment | None:
    """Write the verdict of an open request, and let it count where it may. None if the request is closed."""
    with transaction.atomic():
        request = Reassessment.objects.filter(pk=request_id).first()
        if request is None:
            return None
        rows = Execution.objects.select_for_update(of=("self",), no_key=True).select_related("run")
        execution = rows.get(pk=request.execution_id)
        request = Reassessment.objects.select_for_update(no_key=True).get(pk=request_id)
        if request.state not in (Reassessment.State.QUEUED, Reassessment.State.RUNNING):
            return None
        if request.attempt != execution.attempt:
            return _close(request, Reassessment.State.FAILED, error="the execution has another attempt since")
        group = Group.objects.select_for_update(of=("self",), no_key=True).get(pk=execution.group_id)
        result = judged(execution, verdict)
        before = execution.reward
        new = write_assessment(execution, verdict, result, in_force=False, flags=flags)
        effect = _take_effect(execution, group, result, new)
        request.assessment = new
        payload = {
            "execution": execution.pk,
            "group": group.pk,
            "by": request.owner.get_username() if request.owner else "",
            "reason": request.reason,
            "outcome": result.outcome,
            "reason_code": result.reason_code,
            "value": result.reward,
            "reward_before": before,
            "in_force": new.in_force,
            "effect": effect,
        }
        events.record(execution.run_id, events.EventKind.EXECUTION_REASSESSED, payload)
        return _close(request, Reassessment.State.DONE, effect=effect)


def fail_reassessment(request_id: int, error: str) -> None:
    """No verdict was possible, and none is written."""
    with transaction.atomic():
        rows = Reassessment.objects.select_for_update(of=("self",), no_key=True).select_related("execution")
        request = rows.get(pk=request_id)
        if request.state in (Reassessment.State.QUEUED, Reassessment.State.RUNNING):
            payload = {"execution": request.execution_id, "error": error}
            events.record(request.execution.run_id, events.EventKind.REASSESSMENT_FAILED, payload)
            _close(request, Reassessment.State.FAILED, error=error)


def _close(request: Reassessment, state: str, *, error: str = "", effect: str = "") -> Reassessment:
    request.state, request.error, request.effect, request.finished_at = state, error, effect, timezone.now()
    request.lease_owner, request.lease_expires_at = "", None
    request.save()
    return request


def _take_effect(execution: Execution, group: Group, result: Result, new: Assessment) -> str:
    """Put the verdict in force where nothing rests on the old one yet. Returns what was done, or why nothing was."""
    if not result.outcome.votes:
        return "none: a verdict of unresolved never replaces one that stands"
    if group.kind != Group.Kind.TRAINING:
        return "none: the evaluation's figures stay what they were when it ended"
    if group.state not in (Group.State.DISPATCHED, Group.State.READY):
        where = (
            f"batch {group.batch} has admitted the group" if group.batch is not None else f"the group is {group.state}"
        )
        return f"none on training: {where}, and what was decided stays"
    old = {"reward": execution.reward, "mean": group.reward_mean}
    execution.outcome, execution.reason_code, execution.reason = result.outcome, result.reason_code, result.reason
    execution.reward = result.reward
    penalty = AgentSettings.readable(execution.run.config)["malformed_penalty"]
    assert result.reward is not None
    execution.training_reward = outcome.training_reward(result.reward, harness_end(execution), penalty)
    execution.save(update_fields=["outcome", "reason_code", "reason", "reward", "training_reward"])
    execution.assessments.filter(attempt=execution.attempt).update(in_force=False)
    new.in_force = True
    new.save(update_fields=["in_force"])
    said = f"in force: the reward was {_number(old['reward'])} and is {_number(execution.reward)}"
    if group.state == Group.State.READY:
        _count_again(group)
        said += f"; the group's mean was {_number(old['mean'])} and is {_number(group.reward_mean)}"
    return said


def _count_again(group: Group) -> None:
    rows = group.executions.values_list("outcome", "training_reward")
    votes = [reward for name, reward in rows if Outcome(name).votes and reward is not None]
    group.num_votes = len(votes)
    group.reward_mean, group.reward_std = mean_and_std(votes)
    group.save(update_fields=["num_votes", "reward_mean", "reward_std"])


def _number(value: Any) -> str:
    return "none" if value is None else f"{value:g}"


def wake() -> None:
    """Tell a worker that requests wait. A lost message is sent again while they do."""
    try:
        current_app.send_task(EVALUATE, retry=False, ignore_result=True)
    except (OperationalError, OSError) as error:
        log.warning("could not wake an evaluator: %s; it is woken again while the request waits", error)
