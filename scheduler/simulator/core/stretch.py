"""What happens most often in a run and changes no decision, written out: executions finish, cells go on computing.

The same as `Pool.end`, `World._ended`, `World._finished`, `unasked.refill` and `World._computed`, one operation after
the other, with local names. A stretch ends when `decide` must be asked, or before any other event.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import TYPE_CHECKING

from scheduler.core.launches import num_to_launch
from scheduler.core.snapshot import TRAINING
from scheduler.simulator.core import unasked
from scheduler.simulator.core.parts import SimCell, SimGroup
from scheduler.simulator.core.pool import INFINITE, STALE_S

if TYPE_CHECKING:
    from scheduler.simulator.core.world import World


def let_time_pass(world: World) -> None:
    """Executions must need no time for their evaluation, and nobody must watch single executions."""
    heap, batch, computed = world.heap, world.batch, world.computed
    num_unclaimed = 0 if batch is None else batch.num_unclaimed
    if heap and heap[0][0] < world.pool_end_s and (num_unclaimed <= 1 or heap[0][2] is not computed):
        return  # another event comes first
    pool, tally = world.pool, world.tally
    ends = pool.ends
    now_s, progress, stalled_s, load_s = pool.now_s, pool.progress, pool.stalled_s, pool.load_s
    version, version_offset = pool.version, pool.version_offset
    num_cells, num_places, concurrency = pool.num_cells, pool.num_places, pool.concurrency
    unloaded, per_execution = pool.unloaded, pool.per_execution
    waiting, launched, dispatched = world.waiting, world.launched, world.dispatched
    level, execution_s, world_s, seq = dispatched - world.finished, tally.execution_s, world.now_s, world.seq
    computed_s, micro_step_s = tally.computed_s, world.micro_steps_s[tally.num_computing]
    behind = bool(waiting) and unasked.behind(world)
    ask_level = (level - 1) // concurrency * concurrency
    water_level = (tally.water_points[-1][1] if tally.water_points else 0) - tally.water_step
    dirty, times_out = False, False
    heeded: SimGroup | None = None
    due_s = pool.launches[0].due_s + pool.held_s if pool.launches else INFINITE
    next_s = heap[0][0] if heap else INFINITE
    while True:
        end_s = INFINITE  # Pool.next_end_s
        num_running = len(ends)
        if num_running and num_cells:
            if num_running <= num_places:  # Pool.rate_of
                rate, load = 1.0 / (unloaded + per_execution * num_running), num_running / concurrency
            else:
                rate, load = pool.rate_of(num_running)
            end_s = now_s + stalled_s + (ends[-1].ends_at - progress) / rate
            if due_s <= end_s:
                due_s = pool.due_s()  # that of a launch whose executions are done no longer counts
                times_out = due_s <= end_s
                end_s = due_s if times_out else end_s
        while next_s < end_s:  # World._computed, the cell going on at once
            _, _, action, arguments = heap[0]
            if action is not computed or num_unclaimed <= 1:
                break
            cell: SimCell
            cell, epoch, seconds = arguments  # type: ignore[assignment]
            if cell.epoch != epoch or cell.desired_role != TRAINING:
                break
            computed_s += seconds  # type: ignore[operator]
            num_unclaimed -= 1
            cell.num_uncounted += 1
            world_s = cell.last_claim_s = next_s
            cell.picture = None
            seq += 1
            if seconds != micro_step_s:
                arguments = cell, epoch, micro_step_s
            heapreplace(heap, (next_s + micro_step_s, seq, computed, arguments))
            next_s = heap[0][0]
        if next_s < end_s or times_out or end_s == INFINITE:
            break
        # Pool.end
        load_s += (end_s - now_s) * load
        now_s = world_s = end_s
        execution = ends.pop()
        progress, stalled_s = execution.ends_at, 0.0
        execution.done = True
        launch = execution.launch
        if version == launch.version:
            execution.mean_version = version
        else:
            execution.mean_version = (version * progress + version_offset - launch.version_sum) / (
                progress - launch.progress
            )
        # Tally.ended
        execution_s += now_s - launch.at_s
        # World._finished
        level -= 1
        dirty = level == ask_level
        group: SimGroup = execution.group  # type: ignore[assignment]
        execution.group = None
        group.num_owed -= 1
        if not group.num_owed:
            world.now_s = now_s
            world._settle(group)
            if unasked.heeds_settled(world, group, level):
                heeded = group
        if level <= water_level:
            tally.water_points.append((now_s, level))
            water_level = level - tally.water_step
        if dirty or heeded is not None:
            break
        if waiting:
            # unasked.refill
            count = num_to_launch(len(waiting), launched - dispatched + level, num_cells, concurrency)
            if count > 0 and behind:
                dirty = True
                break
            if count > 0:
                pool.now_s, pool.progress = now_s, progress
                pool.start(waiting[: -count - 1 : -1])
                del waiting[-count:]
                launched += count
    num_ended = dispatched - level - world.finished
    num_computed = 0 if batch is None else batch.num_unclaimed - num_unclaimed
    if num_ended:
        pool.now_s, pool.progress, pool.stalled_s, pool.load_s = now_s, progress, stalled_s, load_s
        pool.rate, pool.load = pool.rate_of(len(ends))
        world.launched, world.finished, world.pool_end_s = launched, dispatched - level, STALE_S
        tally.execution_s = execution_s
        tally.num_executions += num_ended
    if num_computed and batch is not None:
        tally.computed_s = computed_s
        tally.num_computed += num_computed
        batch.num_unclaimed = num_unclaimed
        batch.num_claimed += num_computed
        world.seq = seq
    world.now_s = world_s
    world.num_events += num_ended + num_computed
    if dirty:
        world.ask()
    elif heeded is not None:
        world.heed(heeded, level)
        if waiting and not world.asks:
            unasked.refill(world)
