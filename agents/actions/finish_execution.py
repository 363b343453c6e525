"""Close an attempt: verdict, outcome, reward, tree, counters, group, events, in one transaction.

See docs/algorithms.md §5.

It happens once per execution: whoever comes for an attempt that is over, or has been superseded, changes nothing.
Rows are locked in the order execution, group, run.
"""

import logging
import math
from typing import Any

from django.db import InterfaceError, OperationalError, transaction
from django.utils import timezone

from agents import events
from agents.actions.close_group import examine_group, write_closing
from agents.config import AgentSettings
from agents.core import outcome
from agents.core.bounds import storable
from agents.core.codec import encode_node
from agents.core.fold import Folded, fold
from agents.core.outcome import HarnessEnd, Outcome, Reason, Result, Status, Verdict
from agents.models import Assessment, Call, Execution, Group, Node
from agents.pipelined import insert, pipelined
from agents.recorded import calls_of

log = logging.getLogger(__name__)

LIVE = (Execution.State.RUNNING, Execution.State.EVALUATING)

#: Characters of a reason that are kept.
MAX_REASON = 2_000

#: What finishing writes; other columns belong to the worker and the proxy.
WRITTEN = (
    "state", "outcome", "reason_code", "reason", "reward", "training_reward", "num_malformed_calls", "hit_turn_limit",
    "timed_out", "harness_exit", "sandbox", "finished_at", "key_hash", "lease_owner", "lease_expires_at", "num_calls",
    "num_unique_tokens", "num_sampled_tokens", "num_total_tokens", "num_false_forks", "min_version", "max_version",
)  # fmt: skip


def finish_execution(execution_id: int, attempt: int, verdict: Verdict, end: HarnessEnd) -> bool:
    """Write the result of an attempt. False when the attempt is not the live one: then nothing is written.

    A result that cannot be written for what is in it ends the attempt as unresolved, with the reason: an execution
    without an end would hold up its group, and the next attempt would only come to the same. Raises what says that the
    database is away, to be tried again.
    """
    try:
        return _finish(execution_id, attempt, verdict, end)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        log.exception("the result of execution %s attempt %s cannot be written", execution_id, attempt)
        why = str(error).partition("\n")[0]  # a database goes on with the whole row
        reason = f"its result cannot be written: {type(error).__name__}: {why}"
        instead = Verdict(Status.UNRESOLVED, reason_code=Reason.RESULT_NOT_WRITTEN, reason=reason)
        return _finish(execution_id, attempt, instead, HarnessEnd(timeout=end.timeout), with_tree=False)


def _finish(execution_id: int, attempt: int, verdict: Verdict, end: HarnessEnd, *, with_tree: bool = True) -> bool:
    """One try. Without the tree nothing is read or kept of the calls, so that nothing in them can be in the way."""
    with transaction.atomic():
        execution = (
            Execution.objects.select_for_update(of=("self",), no_key=True)
            .select_related("group", "run")
            .filter(pk=execution_id, attempt=attempt, state__in=LIVE)
            .first()
        )
        if execution is None:
            return False
        calls = calls_of([execution.pk])[execution.pk] if with_tree else []
        folded = fold(call.recorded for call in calls)
        result = outcome.judge(verdict, end, sum(call.recorded.acknowledged for call in calls))
        _describe_tree(execution, folded)
        execution.num_false_forks = sum(call.false_fork for call in calls)
        _close(execution, result, end)
        with pipelined():
            insert([assessment(execution, verdict, result)])
            write_nodes(execution, folded)
            Execution.objects.filter(pk=execution.pk).update(**{name: getattr(execution, name) for name in WRITTEN})
            _close_group(execution, trusts_counters=with_tree)
    return True


def _close_group(execution: Execution, *, trusts_counters: bool) -> None:
    """Without `trusts_counters` one that is wrong already is no reason to keep the execution."""
    execution.group.run = execution.run  # both are here: nothing is to be read again
    closing = examine_group(execution.group)
    entries = [(events.EventKind.EXECUTION_FINISHED, _event(execution))]
    if closing is not None and closing.event is not None:
        entries.append(closing.event)
    run, counts = execution.run, execution.group.kind == Group.Kind.TRAINING
    appended = events.Appended(run.pk, entries, int(counts and (trusts_counters or run.finished < run.launched)))
    if closing is not None:
        write_closing(closing, appended.last_seq() if closing.event else None)


def harness_end(execution: Execution) -> HarnessEnd:
    """How the harness of the execution's newest attempt ended, from its row."""
    timeout = execution.sandbox.get("timeout")
    return HarnessEnd(
        exit_code=execution.harness_exit,
        timeout=Reason(timeout) if timeout else None,
        num_malformed_calls=execution.num_malformed_calls,
        hit_turn_limit=execution.hit_turn_limit,
    )


def judged(execution: Execution, verdict: Verdict) -> Result:
    """What a verdict on the execution's newest attempt comes to."""
    seen = (Call.State.COMPLETE, Call.State.QUARANTINED)
    num_seen = Call.objects.filter(execution=execution, attempt=execution.attempt, state__in=seen).count()
    return outcome.judge(verdict, harness_end(execution), num_seen)


def assessment(
    execution: Execution, verdict: Verdict, result: Result, in_force: bool = True, flags: tuple[str, ...] = ()
) -> Assessment:
    """The verdict as a row of its own, not yet written. `flags` go beside those of the evaluator."""
    status = {Outcome.NO_WORK: Assessment.Status.NO_WORK, Outcome.UNRESOLVED: Assessment.Status.UNRESOLVED}
    return Assessment(
        execution=execution,
        in_force=in_force,
        attempt=execution.attempt,
        status=status.get(result.outcome, Assessment.Status.SCORED),
        reason_code=result.reason_code,
        reason=storable(result.reason)[:MAX_REASON],
        value=result.reward,
        rewards={storable(key): value for key, value in verdict.rewards.items() if math.isfinite(value)},
        flags=[storable(flag) for flag in (*verdict.flags, *flags)],
        exit_code=verdict.exit_code,
        log=storable(verdict.log),
        duration_s=verdict.duration_s,
    )


def write_assessment(
    execution: Execution, verdict: Verdict, result: Result, in_force: bool = True, flags: tuple[str, ...] = ()
) -> Assessment:
    row = assessment(execution, verdict, result, in_force, flags)
    row.save()
    return row


def write_nodes(execution: Execution, folded: Folded) -> None:
    """The folded tree as rows."""
    numbers = {node: number for number, node in enumerate(folded.tree.nodes())}
    rows = [
        Node(
            execution=execution,
            attempt=execution.attempt,
            number=number,
            parent_number=numbers.get(node.parent) if node.parent else None,
            depth=node.depth,
            num_tokens=len(node.ids),
            num_sampled=node.num_sampled,
            call_number=node.call,
            role=folded.facts[node.call].role,
            tokens=encode_node(node.tokens()),
        )
        for node, number in numbers.items()
    ]
    insert(rows)


def _describe_tree(execution: Execution, folded: Folded) -> None:
    """Figures of the tree (docs/algorithms.md §3)."""
    tree = folded.tree
    execution.num_calls = len(tree.ends) + len(folded.unusable)
    execution.num_total_tokens = sum(end.length for end in tree.ends.values())
    execution.num_unique_tokens = tree.num_tokens
    execution.num_sampled_tokens = sum(node.num_sampled for node in tree.nodes())
    versions = [node.versions[node.sampled] for node in tree.nodes()]
    sampled = [part for part in versions if len(part)]
    execution.min_version = min((int(part.min()) for part in sampled), default=None)
    execution.max_version = max((int(part.max()) for part in sampled), default=None)


def _close(execution: Execution, result: Result, end: HarnessEnd) -> None:
    execution.state = Execution.State.FINISHED
    execution.outcome, execution.reason_code = result.outcome, result.reason_code
    execution.reason = storable(result.reason)[:MAX_REASON]
    execution.reward = result.reward
    if result.reward is not None:
        penalty = AgentSettings.readable(execution.run.config)["malformed_penalty"]
        execution.training_reward = outcome.training_reward(result.reward, end, penalty)
    execution.num_malformed_calls, execution.hit_turn_limit = end.num_malformed_calls, end.hit_turn_limit
    execution.timed_out, execution.harness_exit = end.timeout is not None, end.exit_code
    execution.sandbox = {**execution.sandbox, "timeout": end.timeout or ""}
    execution.finished_at = timezone.now()
    execution.key_hash, execution.lease_owner, execution.lease_expires_at = None, "", None


def _event(execution: Execution) -> dict[str, Any]:
    return {
        "execution": execution.pk,
        "attempt": execution.attempt,
        "group": execution.group_id,
        "kind": execution.group.kind,
        "outcome": execution.outcome,
        "reason_code": execution.reason_code,
        "reward": execution.reward,
        "num_calls": execution.num_calls,
        "num_unique_tokens": execution.num_unique_tokens,
    }
