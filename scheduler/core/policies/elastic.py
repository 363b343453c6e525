"""The elastic policy of docs/algorithms.md §9: cells follow the waterlevel between rollout and training."""

from __future__ import annotations

from typing import ClassVar

from scheduler.core import evaluations
from scheduler.core.moves import come_back, in_training, leave, stay, stays_because
from scheduler.core.plan import Plan
from scheduler.core.policies.base import Policy
from scheduler.core.safety import rollout_short
from scheduler.core.settings import Settings
from scheduler.core.snapshot import Burst, Cell
from scheduler.core.supply import UNMEASURED_SWITCH_S, Supply, num_micro_steps_to_do, supply, work_to_do_s

#: Idle time must exceed its limit, not just reach it: `decide` is asked again this long after the limit.
AGAIN_LATER_S = 0.1


class Elastic(Policy):
    kind: ClassVar[str] = "elastic"

    def supply(self, plan: Plan) -> Supply:
        """Is there enough to train? rho_min of a batch."""
        return supply(plan.source, plan.settings)

    def hold_s(self, settings: Settings) -> float:
        """How long the supply must have been there before the core leaves."""
        return settings.supply_hold_s

    def move_cells(self, plan: Plan) -> None:
        _fill_rollout(plan)
        for cell in in_training(plan):
            if not cell.is_core:
                _satellite_in_training(plan, cell)
            elif plan.snapshot.batch is None:
                _core_after_step(plan, cell, self.supply(plan))
        core = plan.core
        if core is not None and any(cell is core for cell in plan.serving()):
            _core_leaves(plan, core, self)
        # The satellite with the least work to move goes first: fewest active calls, then least KV.
        for cell in sorted(plan.serving(), key=lambda c: (c.num_calls, c.num_kv_tokens, c.index)):
            if not cell.is_core:
                _satellite_joins(plan, cell)

    def not_yet(self, plan: Plan, burst: Burst) -> str:
        found = self.supply(plan)
        return "" if found.there else found.told


def _fill_rollout(plan: Plan) -> None:
    """Any training cell, the core last, returns while W > |R| * c. A core that returns parks its gradient sum."""
    concurrency = plan.settings.concurrency_per_cell
    if not rollout_short(len(plan.coming()), concurrency, plan.waterlevel):
        return
    for cell in sorted(in_training(plan), key=lambda c: (c.is_core, c.num_uncounted, c.index)):
        num_coming = len(plan.coming())
        if not rollout_short(num_coming, concurrency, plan.waterlevel):
            return
        come_back(plan, cell, "rollout_short", f"W {plan.waterlevel} > {num_coming} x {concurrency}")


def _core_after_step(plan: Plan, core: Cell, found: Supply) -> None:
    """Without a batch the core stays only if the next one can open (or an evaluation must come first)."""
    if plan.snapshot.version >= plan.settings.steps or found.there:
        return
    pin = plan.orders.pin(core)
    if pin is None or pin.role != core.role:
        come_back(plan, core, "supply_short", found.told)


def _core_leaves(plan: Plan, core: Cell, policy: Elastic) -> None:
    snapshot = plan.snapshot
    if snapshot.version >= plan.settings.steps:
        return
    if evaluations.pending(plan):
        stay(plan, core, "evaluation_first", f"version {snapshot.version} must be evaluated first")
        return
    if snapshot.batch is not None:
        _core_resumes(plan, core)
        return
    found, needed_s = policy.supply(plan), policy.hold_s(plan.settings)
    held_s = found.held_s(plan.now_s)
    short = stays_because(plan)
    if not found.there:
        numbers = found.told if short is None else f"{short[1]}; {found.told}"
        code = "supply_short" if short is None else short[0]
        stay(plan, core, code, numbers)
    elif held_s < needed_s and short is None:
        numbers = f"{found.told} for {held_s:.1f} s of {needed_s:g} s"
        stay(plan, core, "supply_not_held", numbers, again_s=plan.now_s + needed_s - held_s)
    else:
        leave(plan, core, "supply", f"{found.num_ready} groups ready, {found.num_needed} needed, for {held_s:.1f} s")


def _core_resumes(plan: Plan, core: Cell) -> None:
    """A core that had parked its gradient sum leaves rollout again when its batch has something to do."""
    batch, burst = plan.snapshot.batch, plan.source
    assert batch is not None
    num_ready = 0 if burst is None else len(burst.ready)
    if batch.sealed or batch.num_unclaimed or num_ready or burst is None or burst.num_unfinished == 0:
        state = "sealed" if batch.sealed else f"open with {batch.num_unclaimed} unclaimed micro-steps"
        leave(plan, core, "batch_in_progress", f"batch {batch.number} is {state}, {num_ready} groups ready")
    else:
        stay(plan, core, "no_work", f"batch {batch.number} waits for {burst.num_unfinished} unfinished groups")


def _satellite_joins(plan: Plan, cell: Cell) -> None:
    """Join when the work that is there outlasts this cell's measured switch."""
    if not plan.core_trains:
        stay(plan, cell, "core_first", "the core does not train")
        return
    worth, numbers = _worth_joining(plan, cell, len(plan.training()))
    if worth:
        leave(plan, cell, "join", numbers)
        return
    short = stays_because(plan)
    code, why = ("no_work", numbers) if short is None else (short[0], f"{short[1]}; {numbers}")
    stay(plan, cell, code, why)


def _worth_joining(plan: Plan, cell: Cell, num_trainers: int) -> tuple[bool, str]:
    todo = num_micro_steps_to_do(plan.snapshot, plan.source)
    work_s = work_to_do_s(plan.snapshot, plan.source, num_trainers)
    if todo <= 0:
        return False, "no micro-step is unclaimed and no group ready"
    if work_s is None or cell.to_training_s is None:
        return True, f"{todo:.0f} micro-steps to do, switch not measured yet"
    sign = ">" if work_s > cell.to_training_s else "<="
    return (
        work_s > cell.to_training_s,
        f"{todo:.0f} micro-steps are {work_s:.2f} s of work {sign} {cell.to_training_s:.2f} s for a switch",
    )


def _satellite_in_training(plan: Plan, cell: Cell) -> None:
    """Return when the batch is sealed and claimed, or after idling longer than a switch; stay for ready groups."""
    batch = plan.snapshot.batch
    if batch is not None and batch.num_unclaimed:
        return
    num_others = max(1, len(plan.training()) - 1)
    worth, numbers = _worth_joining(plan, cell, num_others)
    if worth and (batch is not None or plan.core_trains):
        stay(plan, cell, "more_work", numbers)
        return
    if batch is None or batch.sealed:
        what = "no batch is open" if batch is None else f"batch {batch.number} is sealed and claimed"
        come_back(plan, cell, "claimed", f"{what}; {numbers}")
        return
    switch_s = cell.to_training_s if cell.to_training_s is not None else UNMEASURED_SWITCH_S
    limit_s = switch_s + (plan.snapshot.work.micro_step_s or 0.0)
    idle_s = max(0.0, plan.now_s - max(cell.role_since_s or 0.0, cell.last_claim_s or 0.0))
    if idle_s > limit_s:
        come_back(plan, cell, "idle", f"idle for {idle_s:.1f} s, longer than a switch of {limit_s:.1f} s")
    else:
        numbers = f"idle for {idle_s:.1f} s of {limit_s:.1f} s"
        stay(plan, cell, "waits_for_groups", numbers, again_s=plan.now_s + limit_s - idle_s + AGAIN_LATER_S)
