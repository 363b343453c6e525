"""Why a run cannot go on: what was refused, and what to look at."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.decisions import Decision
from scheduler.core.settings import Settings
from scheduler.simulator.core.workload import Workload

#: Failures without an optimizer step, per cell, after which no further step is waited for.
MAX_FAILURES_PER_CELL = 10_000


class Stuck(RuntimeError):
    """The run cannot go on: nothing is due and no decision is accepted, or cells fail too often for a step to end.

    The message says where the run stands, what was refused and why.
    """


def why_idle(decisions: Iterable[Decision]) -> str:
    return f"nothing is due and nothing is decided: {_reasons(decisions)}"


def why_unsettled(accepted: Iterable[Decision]) -> str:
    return f"decisions do not settle: {_reasons(accepted)}"


def why_void(settings: Settings, workload: Workload, reason: str) -> str:
    return (
        f"{reason}; a group needs the votes of min_votes {workload.min_votes} of {settings.executions_per_group} "
        f"executions, unresolved_share {workload.unresolved_share:g} of them have none"
    )


def why_failing(workload: Workload) -> str:
    return (
        f"cells fail too often: more than {MAX_FAILURES_PER_CELL:,} times per cell since the last optimizer step; "
        f"cell_failures_per_h is {workload.cell_failures_per_h:g}, repair_s {workload.repair_s:g}"
    )


def _reasons(decisions: Iterable[Decision]) -> str:
    return "; ".join(decision.reason for decision in decisions)
