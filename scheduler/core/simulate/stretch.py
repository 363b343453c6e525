"""What happens most often in a run and changes no decision, written out: executions finish, cells go on computing.

The same as `Pool.end`, `World._ended`, `World._finished`, `unasked.refill` and `World._computed`, one operation after
the other, with local names. A stretch ends when `decide` must be asked, or before any other event.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import TYPE_CHECKING

from scheduler.core.launches import num_to_launch
from scheduler.core.simulate import unasked
from scheduler.core.simulate.parts import SimCell, SimGroup
from scheduler.core.simulate.pool import INFINITE
from scheduler.core.snapshot import TRAINING

if TYPE_CHECKING:
    from scheduler.core.simulate.world import World


def let_time_pass(world: World) -> None:
    """Executions must need no time for their evaluation, and nobody must watch single executions."""
    pool, tally, heap, batch = world.pool, world.tally, world.heap, world.batch
    ends, load = pool.ends, pool.load
    now_s, progress, stalled_s, load_s = pool.now_s, pool.progress, pool.stalled_s, pool.load_s
    version, version_offset = pool.version, pool.version_offset
    num_cells, num_places, concurrency = pool.num_cells, pool.num_places, pool.concurrency
    unloaded, per_execution = pool.unloaded, pool.per_execution
    waiting, launched, finished = world.waiting, world.launched, world.finished
    waterlevel, execution_s, world_s, seq = world.dispatched - finished, tally.execution_s, world.now_s, world.seq
    num_unclaimed = 0 if batch is None else batch.num_unclaimed
    num_computed, computed_s, computed = 0, tally.computed_s, world.computed
    micro_step_s = world.micro_steps_s[tally.num_computing]
    behind = bool(waiting) and unasked.behind(world)
    water, water_step = tally.water_points[-1][1] if tally.water_points else 0, tally.water_step
    num_before, dirty, times_out = finished, False, False
    heeded: SimGroup | None = None
    due_s = pool.launches[0].due_s + pool.held_s if pool.launches else INFINITE
    end_s, next_s = -1.0, heap[0][0] if heap else INFINITE
    while not dirty and heeded is None:
        if end_s < 0.0:  # Pool.next_end_s
            end_s = INFINITE
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
        if next_s < end_s:  # World._computed, the cell going on at once
            _, _, action, arguments = heap[0]
            if action is not computed or num_unclaimed <= 1:
                break
            cell: SimCell
            cell, epoch, seconds = arguments  # type: ignore[assignment]
            if cell.epoch != epoch or cell.desired_role != TRAINING:
                break
            computed_s += seconds  # type: ignore[operator]
            num_computed += 1
            num_unclaimed -= 1
            cell.num_uncounted += 1
            world_s = cell.last_claim_s = next_s
            cell.picture = None
            seq += 1
            if seconds != micro_step_s:
                arguments = cell, epoch, micro_step_s
            heapreplace(heap, (next_s + micro_step_s, seq, computed, arguments))
            next_s = heap[0][0]
            continue
        if times_out or end_s == INFINITE:
            break
        # Pool.end
        load_s += (end_s - now_s) * load
        now_s = world_s = end_s
        end_s = -1.0
        execution = ends.pop()
        progress, stalled_s = execution.ends_at, 0.0
        execution.done = True
        launch = execution.launch
        sampled = progress - launch.progress
        if sampled > 0.0:
            execution.mean_version = (version * progress + version_offset - launch.version_sum) / sampled
        else:
            execution.mean_version = float(launch.version)
        # Tally.ended
        execution_s += now_s - launch.at_s
        # World._finished
        finished += 1
        waterlevel -= 1
        dirty = not waterlevel % concurrency
        group: SimGroup = execution.group  # type: ignore[assignment]
        group.num_owed -= 1
        if not group.num_owed:
            world.now_s = now_s
            world._settle(group)
            if unasked.heeds_settled(world, group, waterlevel):
                heeded = group
        if waiting and not dirty and heeded is None:
            # unasked.refill
            count = num_to_launch(len(waiting), launched - finished, num_cells, concurrency)
            if count > 0 and behind:
                dirty = True
            elif count > 0:
                pool.now_s, pool.progress = now_s, progress
                pool.start(waiting[: -count - 1 : -1])
                del waiting[-count:]
                launched += count
        if water - waterlevel >= water_step:
            tally.water_points.append((now_s, waterlevel))
            water = waterlevel
    pool.now_s, pool.progress, pool.stalled_s, pool.load_s = now_s, progress, stalled_s, load_s
    pool.rate, pool.load = pool.rate_of(len(ends))
    world.now_s, world.launched, world.finished, world.pool_end_s = world_s, launched, finished, end_s
    world.seq = seq
    num_ended = finished - num_before
    world.num_events += num_ended + num_computed
    tally.execution_s = execution_s
    tally.num_executions += num_ended
    if num_computed and batch is not None:
        tally.computed_s = computed_s
        tally.num_computed += num_computed
        batch.num_unclaimed = num_unclaimed
        batch.num_claimed += num_computed
    if dirty:
        world.ask()
    elif heeded is not None:
        world.heed(heeded, waterlevel)
        if waiting and not world.asks:
            unasked.refill(world)
