"""`decide(snapshot, policy, now) -> decisions`: pure, total, and the same for live and simulated.

See docs/algorithms.md §9.

The order is part of the rule: people's orders, evaluation, dispatch, cells, batch, launches. Each step sees the
world as the steps before it left it.
"""

from __future__ import annotations

from scheduler.core import evaluations
from scheduler.core.batches import fill_batch, open_batch
from scheduler.core.decisions import Decision, Kind
from scheduler.core.dispatch import dispatch
from scheduler.core.launches import launch, launch_evaluation
from scheduler.core.moves import obey_orders
from scheduler.core.plan import Plan
from scheduler.core.policies.base import Policy
from scheduler.core.snapshot import Snapshot


def decide(snapshot: Snapshot, policy: Policy, now_s: float) -> list[Decision]:
    """All decisions on one snapshot, refusals among them, in the order in which they must be carried out."""
    plan = Plan.start(snapshot, now_s, policy.mixes_bursts)
    if snapshot.paused:
        # Nothing new begins; what runs may finish, the open batch included.
        fill_batch(plan)
        return plan.decisions
    if finished(plan):
        plan.accept(
            Kind.FINISH_RUN,
            "steps_done",
            f"finishes: version {snapshot.version} of {plan.settings.steps} reached, last evaluation done",
        )
        return plan.decisions
    obey_orders(plan)
    evaluations.evaluate(plan, policy.fixed_split)
    dispatch(plan, policy)
    policy.move_cells(plan)
    open_batch(plan, policy)
    fill_batch(plan)
    launch(plan)
    launch_evaluation(plan)
    return plan.decisions


def finished(plan: Plan) -> bool:
    """All optimizer steps are done, and the last version's evaluation with them."""
    snapshot = plan.snapshot
    return (
        snapshot.version >= plan.settings.steps
        and snapshot.batch is None
        and snapshot.evaluation is None
        and not evaluations.due(plan)
    )
