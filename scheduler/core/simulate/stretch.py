"""What happens most often in a run and changes no decision, written out: executions end, cells go on computing.

The same as `Pool.advance`, `Pool.end`, `World._ended`, `World._finished`, `World._refill` and `World._computed`, one
operation after the other, with local names. A stretch ends when `decide` must be asked, or before any other event.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from scheduler.core.launches import num_to_launch
from scheduler.core.simulate.parts import SimCell, SimGroup
from scheduler.core.simulate.pool import INFINITE, Execution
from scheduler.core.snapshot import TRAINING

if TYPE_CHECKING:
    from scheduler.core.simulate.world import World


def let_time_pass(world: World) -> None:
    """Executions must need no time for their evaluation, and nobody must watch single executions."""
    pool, tally, heap, batch = world.pool, world.tally, world.heap, world.batch
    ends, timeouts, rates = pool.ends, pool.timeouts, pool.rates
    now_s, progress, served_s, stalled_s = pool.now_s, pool.progress, pool.served_s, pool.stalled_s
    load_s, work_done_s, version_sum = pool.load_s, pool.work_done_s, pool.version_sum
    num_running, rate, version, seq = pool.num_running, pool.rate, pool.version, pool.seq
    num_cells, concurrency, timeout_s = pool.num_cells, pool.concurrency, pool.timeout_s
    waiting, launched, finished, dispatched = world.waiting, world.launched, world.finished, world.dispatched
    num_ended, execution_s, world_s = 0, tally.execution_s, world.now_s
    num_unclaimed = 0 if batch is None else batch.num_unclaimed
    num_computed, computed_s, computed = 0, tally.computed_s, world.computed
    micro_step_s = world.micro_steps_s[tally.num_computing]
    behind = bool(waiting) and world.behind()
    water, water_step = tally.water_points[-1][1] if tally.water_points else 0, tally.water_step
    dirty = False
    end_s, next_s = -1.0, heap[0][0] if heap else INFINITE
    while not dirty:
        if end_s < 0.0:  # Pool.next_end_s
            end_s = INFINITE
            if num_running and num_cells:
                while ends[0][2].done:
                    heappop(ends)
                while timeouts[0][1].done:
                    timeouts.popleft()
                finish_s = now_s + stalled_s + (ends[0][0] - progress) / rate
                end_s = now_s + timeouts[0][0] - served_s
                if finish_s < end_s:
                    end_s = finish_s
                if end_s < now_s:
                    end_s = now_s
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
            cell.last_claim_s, cell.picture = next_s, None
            world_s = next_s
            world.seq += 1
            heapreplace(heap, (next_s + micro_step_s, world.seq, computed, (cell, epoch, micro_step_s)))
            next_s = heap[0][0]
            continue
        if end_s == INFINITE:
            break
        # Pool.advance
        elapsed = end_s - now_s
        world_s = end_s
        if elapsed > 0.0:
            now_s = end_s
            served_s += elapsed
            load = num_running / concurrency
            load_s += elapsed * (load if load < num_cells else num_cells)
            if stalled_s:
                lost = min(stalled_s, elapsed)
                stalled_s -= lost
                elapsed -= lost
            done = elapsed * rate
            progress += done
            version_sum += done * version
            work_done_s += done * num_running
        # Pool.end
        execution: Execution
        if timeouts[0][0] - served_s <= stalled_s + (ends[0][0] - progress) / rate:
            execution = timeouts.popleft()[1]
            tally.num_timeouts += 1
        else:
            execution = heappop(ends)[2]
        execution.done = True
        num_running -= 1
        end_s = -1.0
        # Tally.ended
        num_ended += 1
        execution_s += now_s - execution.started_s
        sampled = progress - execution.started_progress
        if sampled <= 0.0:
            execution.version_sum = float(execution.launch_version)
        else:
            execution.version_sum = (version_sum - execution.version_sum) / sampled
        # World._finished
        finished += 1
        group: SimGroup = execution.group  # type: ignore[assignment]
        _, votes, works = execution.draw
        if votes:
            group.num_votes += 1
            if works:
                group.num_working += 1
        group.num_owed -= 1
        waterlevel = dispatched - finished
        dirty = not waterlevel % concurrency
        if not group.num_owed:
            world.now_s = now_s
            world._settle(group)
            dirty = dirty or world.heeds(group, waterlevel)
        if waiting and not dirty:
            # World._refill
            count = num_to_launch(len(waiting), launched - finished, num_cells, concurrency)
            if count > 0 and behind:
                dirty, count = True, 0
            for _ in range(count):
                seq += 1
                launched += 1
                execution = waiting.pop()
                execution.started_s, execution.started_progress = now_s, progress
                execution.launch_version, execution.version_sum = version, version_sum
                heappush(ends, (progress + execution.draw[0], seq, execution))
                timeouts.append((served_s + timeout_s, execution))
                num_running += 1
                group = execution.group  # type: ignore[assignment]
                if group.started_s < 0.0:
                    group.started_s = now_s
        if abs(water - waterlevel) >= water_step:
            tally.water_points.append((now_s, waterlevel))
            water = waterlevel
        known = rates.get(num_running)
        rate = pool.rate_of(num_running) if known is None else known
    pool.now_s, pool.progress, pool.served_s, pool.stalled_s = now_s, progress, served_s, stalled_s
    pool.load_s, pool.work_done_s, pool.version_sum = load_s, work_done_s, version_sum
    pool.num_running, pool.rate, pool.seq = num_running, rate, seq
    world.now_s, world.launched, world.finished, world.pool_end_s = world_s, launched, finished, end_s
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
