"""A group whose executions have all ended becomes ready, or void if too few of them vote.

See docs/algorithms.md §6, §9.
"""

from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from agents import events
from agents.config import AgentSettings
from agents.core.advantage import mean_and_std
from agents.core.outcome import Outcome
from agents.models import Execution, Group

OVER = (Execution.State.FINISHED, Execution.State.CANCELLED)


@dataclass(frozen=True)
class Closing:
    """What became of a group, not yet written."""

    group: Group
    event: tuple[events.EventKind, dict[str, Any]] | None

    @property
    def is_ready(self) -> bool:
        return self.group.state == Group.State.READY


def close_group_if_complete(group_id: int) -> bool:
    """Close the group if its last execution has ended. Returns whether it did.

    Call it in the transaction that ended an execution, after that row is written.
    """
    with transaction.atomic():
        closing = examine_group(Group.objects.select_related("run").get(pk=group_id))
        if closing is None:
            return False
        seq = events.record_all(closing.group.run_id, [closing.event]) if closing.event else None
        write_closing(closing, seq)
        return True


def examine_group(group: Group) -> Closing | None:
    """Lock the group; None while an execution is still to end, or when the group is closed already.

    The lock makes two executions that end at once see each other: the second to get it sees the first's row, and the
    state that the first may have given the group since `group` was read.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM agents_group WHERE id = %s FOR NO KEY UPDATE", [group.pk])
    rows = Execution.objects.filter(group=group)
    members = list(rows.values_list("state", "outcome", "reward", "training_reward", "group__state"))
    if any(state not in OVER or group_state != Group.State.DISPATCHED for state, *_, group_state in members):
        return None
    training = group.kind == Group.Kind.TRAINING
    votes = [
        vote
        for _, outcome, reward, training_reward, _ in members
        if Outcome(outcome).votes and (vote := training_reward if training else reward) is not None
    ]
    group.num_votes = len(votes)
    if votes:
        group.reward_mean, group.reward_std = mean_and_std(votes)
    usable = len(votes) >= (AgentSettings.readable(group.run.config)["min_votes"] if training else 1)
    group.state = Group.State.READY if usable else Group.State.VOID
    group.ready_at = timezone.now()
    if not training:
        return Closing(group, None)
    kind = events.EventKind.GROUP_READY if usable else events.EventKind.GROUP_VOIDED
    payload = {
        "group": group.pk,
        "number": group.number,
        "burst": group.burst,
        "num_votes": len(votes),
        "num_unresolved": sum(outcome == Outcome.UNRESOLVED for _, outcome, *_ in members),
        "reward_mean": group.reward_mean,
    }
    return Closing(group, (kind, payload))


def write_closing(closing: Closing, seq: int | None) -> None:
    """Write the group. `seq` of its event orders the ready groups of a run."""
    if closing.is_ready:
        closing.group.ready_order = seq
    names = ("num_votes", "reward_mean", "reward_std", "state", "ready_at", "ready_order")
    values = {name: getattr(closing.group, name) for name in names}
    Group.objects.filter(pk=closing.group.pk).update(**values)  # not `save`: in a pipeline nobody counts its rows
