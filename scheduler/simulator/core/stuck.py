"""What a run that cannot go on says: where it stands, what was refused, and what to look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scheduler.core.decide import decide
from scheduler.core.decisions import Decision
from scheduler.simulator.core.workload import HOUR_S

if TYPE_CHECKING:
    from scheduler.simulator.core.world import World

#: Failures without an optimizer step, per cell, after which no further step is waited for.
MAX_FAILURES_PER_CELL = 10_000


class Stuck(RuntimeError):
    """The run cannot go on: nothing is due and no decision is accepted, or cells fail too often for a step to end.

    The message says what was refused and why.
    """


def why_stuck(world: World) -> str:
    decisions = decide(world.snapshot(), world.policy, world.now_s)
    return f"{_where(world)}: nothing is due and nothing is decided: {_reasons(decisions)}"


def why_unsettled(world: World, accepted: Iterable[Decision]) -> str:
    return f"{_where(world)}: decisions do not settle: {_reasons(accepted)}"


def why_void(world: World, reason: str) -> str:
    needed, lost = world.workload.min_votes, world.workload.unresolved_share
    return (
        f"{_where(world)}: {reason}; a group needs the votes of min_votes {needed} of "
        f"{world.settings.executions_per_group} executions, unresolved_share {lost:g} of them have none"
    )


def count_failure(world: World) -> None:
    """One more failure since the last step, also of a cell that is lost already. Raises Stuck for too many."""
    tally, num_cells = world.tally, len(world.cells)
    tally.num_failures_since_step += 1
    if tally.num_failures_since_step > MAX_FAILURES_PER_CELL * num_cells:
        raise Stuck(
            f"{_where(world)}: cells fail too often: more than {MAX_FAILURES_PER_CELL:,} times per cell since the last "
            f"optimizer step; cell_failures_per_h is {world.workload.cell_failures_per_h:g}, repair_s "
            f"{world.workload.repair_s:g}"
        )


def _where(world: World) -> str:
    hours = world.now_s / HOUR_S
    return f"{world.policy.kind} stands at version {world.version} of {world.settings.steps} after {hours:.2f} h"


def _reasons(decisions: Iterable[Decision]) -> str:
    return "; ".join(decision.reason for decision in decisions)
