"""elastic+: the elastic policy, trained from the first group on, with bursts sized by the run's own history.

Against `elastic` it differs in three ways, each measured in docs/elastic-plus.md; capacity rule, staleness bound and
executions in progress are as there.

1. **Train at once.** Micro-steps are streamed, so the core leaves for the first ready group instead of a share of the
   batch: what is trained while the burst's groups trickle in need not be trained after them.
2. **Start ahead.** A few groups of the next burst start while the last batch of this one is trained. They are one
   version older than the rest of their burst when they are trained, so their share is what mean staleness rises by.
3. **Carry stragglers.** When the slowest groups hold the run up, bursts have one batch less and go out while half a
   batch is still owed: the stragglers fill the first batch of the next burst, at the staleness bound. Mean staleness
   stays (S - 1) / 2: bursts of S - 1 batches would have (S - 2) / 2, and half a batch of each is S - 1 versions old
   where it would be fresh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from scheduler.core import bursts
from scheduler.core.bursts import Proposal, strict_burst
from scheduler.core.plan import Plan
from scheduler.core.policies.elastic import Elastic
from scheduler.core.settings import Settings
from scheduler.core.snapshot import Burst, Work
from scheduler.core.supply import Supply, supply

#: Share of a burst that starts ahead: what mean staleness rises by.
AHEAD_SHARE = 0.1
#: A last batch with more than this share unfinished leaves no places free for groups ahead.
STRAGGLING_SHARE = 0.5
#: Carrying must promise at least this much: predictions err.
CARRY_GAIN = 1.1


class ElasticPlus(Elastic):
    kind: ClassVar[str] = "elastic+"
    mixes_bursts: ClassVar[bool] = True

    def supply(self, plan: Plan) -> Supply:
        """One group is enough, whatever rho_min says."""
        return supply(plan.source, replace(plan.settings, rho_min=1.0 / plan.settings.groups_per_batch))

    def hold_s(self, settings: Settings) -> float:
        return 0.0

    def not_yet(self, plan: Plan, burst: Burst) -> str:
        return ""

    def next_burst(self, plan: Plan) -> Proposal:
        settings, snapshot = plan.settings, plan.snapshot
        size, shape = settings.groups_per_batch, bursts.shape(settings)
        if shape.lead:
            return strict_burst(snapshot, settings)  # bursts overlap already
        outstanding = bursts.outstanding_groups(snapshot)
        needed = (settings.steps - snapshot.version) * size - outstanding
        if needed <= 0:
            why = f"{outstanding} groups under way are enough for the steps up to {settings.steps}"
            return Proposal(0, "last_steps", f"no burst: {why}")
        carried = size // 2 if shape.num_batches > 1 else 0
        if outstanding <= carried:
            count, how = self._whole_burst(plan, shape.num_batches, outstanding)
            return Proposal(min(count, needed), how, f"{min(count, needed)} groups, {outstanding} carried over,")
        if outstanding <= size and _last_batch_half_done(plan):
            count = min(int(AHEAD_SHARE * shape.num_batches * size), needed)
            if count:
                return Proposal(count, "ahead", f"{count} groups ahead")
        why = f"{outstanding} groups are neither consumed nor void, {carried} may be"
        return Proposal(0, "burst_in_progress", f"no burst yet: {why}")

    def _whole_burst(self, plan: Plan, num_batches: int, outstanding: int) -> tuple[int, str]:
        """Groups that bring what is outstanding up to S batches, or to half a batch less."""
        size = plan.settings.groups_per_batch
        if carries(plan.snapshot.work, num_batches, size):
            return num_batches * size - (size - size // 2) - outstanding, "stragglers_carried"
        return num_batches * size - outstanding, "burst_used_up"


def _last_batch_half_done(plan: Plan) -> bool:
    """The last batch of the burst is in progress, most of its groups are complete, and none was started ahead yet."""
    batch, source = plan.snapshot.batch, plan.source
    if (
        not plan.settings.max_staleness
        or batch is None
        or source is None
        or any(b.version == plan.snapshot.version for b in plan.snapshot.bursts)
    ):
        return False
    return source.num_unfinished <= STRAGGLING_SHARE * plan.settings.groups_per_batch


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds from one burst to the next, by what may hold it up: its last wanted group, or training."""

    last_s: float
    trained_s: float

    @property
    def burst_s(self) -> float:
        return max(self.last_s, self.trained_s)


def forecast(work: Work, num_batches: int, size: int, carried: int) -> Forecast | None:
    """For bursts of so many batches with so many groups carried over; None until there is history.

    Read off the run's own history: when all groups but the carried ones are complete, when the first batch is, and how
    long a step takes that waits for nothing. The shares of a step are explained in docs/elastic-plus.md.
    """
    if work.step_s is None or not work.group_s:
        return None
    groups = num_batches * size
    return Forecast(
        last_s=_quantile(work.group_s, (groups - carried - 0.5) / groups) + work.step_s / 4,
        trained_s=_quantile(work.group_s, (size - carried - 0.5) / groups) + work.step_s * (num_batches - 0.6),
    )


def carries(work: Work, num_batches: int, size: int) -> bool:
    """Would bursts of one batch less, with half a batch carried over, give steps sooner than strict bursts?"""
    if num_batches < 2 or size < 2:
        return False
    strict = forecast(work, num_batches, size, 0)
    carrying = forecast(work, num_batches - 1, size, size // 2)
    if strict is None or carrying is None:
        return False
    return CARRY_GAIN * carrying.burst_s / (num_batches - 1) < strict.burst_s / num_batches


def _quantile(values: tuple[float, ...], share: float) -> float:
    """Of evenly spaced quantiles, the first at 0 and the last at 1; between them a straight line."""
    place = min(max(share, 0.0), 1.0) * (len(values) - 1)
    low = min(int(place), len(values) - 2) if len(values) > 1 else 0
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)
