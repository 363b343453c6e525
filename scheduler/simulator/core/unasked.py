"""What a world does, or leaves, without asking `decide`, because the answer is known (docs/algorithms.md §12).

Places are filled and groups admitted by the rule for it alone, where no other rule has anything to say; and some events
change no decision, as far as the policy says so. `exhaustive=True` asks nevertheless; tests compare the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.core.launches import num_to_launch
from scheduler.core.snapshot import TRAINING
from scheduler.simulator.core.parts import SimCell, SimGroup

if TYPE_CHECKING:
    from scheduler.simulator.core.world import World


def refill(world: World) -> None:
    """Launch what waits, as far as places are free. A cell that is behind has `decide` say why not."""
    count = num_to_launch(
        len(world.waiting),
        world.launched - world.finished,
        world.pool.num_cells,
        world.settings.concurrency_per_cell,
    )
    if count > 0:
        if behind(world):
            world.ask()
        else:
            world.start(count)


def behind(world: World) -> bool:
    """A cell serves weights older than the newest burst: nothing is launched."""
    newest = world.bursts[-1].version if world.bursts else 0
    return any(cell.weight_version < newest and cell.serves for cell in world.cells)


def heeds_settled(world: World, group: SimGroup, waterlevel: int) -> bool:
    """May this settled group change a decision? A ready one often does not while the batch is sealed."""
    if world.batch is None or not world.batch.sealed or group.state != "ready":
        return True
    return _heeds_ready(world, waterlevel)


def admits(world: World, group: SimGroup, waterlevel: int) -> bool:
    """Admit this group to the open batch, where `decide` would do that and nothing else: more are to come.

    With micro-steps unclaimed no cell in training thinks of leaving. Who looks at decisions wants to see this one.
    """
    batch, burst = world.batch, group.burst
    if (
        group.state != "ready"
        or len(burst.ready) > 1
        or batch is None
        or batch.sealed
        or batch.burst != burst.number
        or not batch.num_unclaimed
        or len(batch.groups) + 1 >= burst.groups_per_batch
        or not burst.num_unfinished
        or world.policy.mixes_bursts
        or world.on_decisions is not None
        or _heeds_ready(world, waterlevel)
    ):
        return False
    world.admit(group, batch)
    return True


def _heeds_ready(world: World, waterlevel: int) -> bool:
    return world.policy.heeds_ready(world.pool.num_cells, world.settings.concurrency_per_cell, waterlevel)


def heeds_arrival(world: World, cell: SimCell) -> bool:
    """May it change a decision that this cell has arrived where it was sent?"""
    batch, core = world.batch, world.cells[0]
    if world.waiting or batch is None or core.desired_role != TRAINING:
        return True
    if world.settings.eval_every_steps or world.awaits_moment:
        return True
    return world.policy.heeds_arrival(
        cell.role,
        world.pool.num_cells,
        world.settings.concurrency_per_cell,
        world.dispatched - world.finished,
        batch.num_unclaimed,
        sum(len(burst.ready) for burst in world.bursts),
    )
