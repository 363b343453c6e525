"""A simulated world under watch: every law of the schedule is checked at every evaluation of `decide`.

With `exhaustive=True` that is after every event. The counts are made anew from executions, groups and cells, not read
from the counters they are compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isclose

from scheduler.core import snapshot as facts
from scheduler.core.decisions import Decision, Kind
from scheduler.core.policies import policy_of
from scheduler.simulator.core import Result, World
from scheduler.simulator.core.parts import SimBatch, SimGroup
from tests.simulate.strategies import EXEMPT_FROM_CAPACITY, Case

Listener = Callable[[facts.Snapshot, list[Decision]], None]
#: Events after which a run is taken for endless.
MAX_EVENTS = 60_000


class Watch:
    """Runs a case to its end and checks it on the way. `history` keeps what was decided when, if asked for."""

    def __init__(self, case: Case, *, exhaustive: bool = False, listener: Listener | None = None) -> None:
        self.case, self.listener = case, listener
        self.world = World(
            case.settings, case.workload, case.policy_kind, case.seed, on_decisions=self._decided, exhaustive=exhaustive
        )
        self.groups: dict[int, SimGroup] = {}
        self.owing: list[SimGroup] = []
        self.last_s = 0.0
        self.version = 0
        self.batch: SimBatch | None = None
        self.num_leaves = self.num_launches = self.num_trained = 0

    def run(self) -> Result:
        self.world.run(until=self._too_long)
        self._check_state()
        self._check_end()
        return self.world.result(self.case.seed)

    def _too_long(self, world: World) -> bool:
        num_events = world.agenda.num_events
        assert num_events < MAX_EVENTS, f"still at version {world.version} after {num_events} events"
        return False

    def _decided(self, snapshot: facts.Snapshot, decisions: list[Decision]) -> None:
        for execution in self.world.rollout.waiting:
            group: SimGroup = execution.group  # type: ignore[assignment]
            if group.id not in self.groups:
                self.groups[group.id] = group
                self.owing.append(group)
        assert snapshot.taken_at_s == self.world.now_s
        self._check_state()
        self._check_steps()
        self._check_decisions(snapshot, decisions)
        if self.listener is not None:
            self.listener(snapshot, decisions)

    # What holds at every moment

    def _check_state(self) -> None:
        world = self.world
        assert world.now_s >= self.last_s, "the clock runs forward"
        self.last_s = world.now_s
        self._check_executions()
        for cell in world.cells:
            by_role = sum(seconds for role, seconds in cell.seconds.items() if role != "computing")
            booked = by_role + world.now_s - cell.role_since_s
            assert isclose(booked, world.now_s, rel_tol=1e-9, abs_tol=1e-6), "busy + idle = time, per cell"
        assert world.training.num_computing == sum(cell.computing for cell in world.cells)
        assert all(cell.role == facts.TRAINING for cell in world.cells if cell.computing)
        if world.training.batch is not None:
            self._check_ledger(world.training.batch)

    def _check_executions(self) -> None:
        """dispatched = finished + waiting + running (+ being verified), counted from the executions themselves."""
        rollout = self.world.rollout
        num_waiting = num_running = num_done = 0
        waiting = {id(execution) for execution in rollout.waiting}
        assert len(waiting) == len(rollout.waiting)
        self.owing = [group for group in self.owing if group.num_owed]
        for group in self.owing:
            num_done += sum(execution.done for execution in group.executions)
            for execution in group.executions:
                if id(execution) in waiting:
                    assert not execution.done
                    num_waiting += 1
                elif not execution.done:
                    num_running += 1
        owed = sum(group.num_owed for group in self.owing)
        assert all(group.num_owed > 0 for group in self.owing)
        assert num_waiting == len(rollout.waiting)
        assert num_running == rollout.pool.num_running
        assert 0 <= rollout.finished <= rollout.launched <= rollout.dispatched
        assert rollout.waterlevel == owed, "W = executions still owed a result"
        assert rollout.dispatched - rollout.launched == num_waiting
        num_verifying = rollout.launched - rollout.finished - num_running
        assert 0 <= num_verifying <= num_done
        assert num_verifying == 0 or self.world.workload.evaluation_s
        assert rollout.finished + num_verifying + num_running + num_waiting == rollout.dispatched

    def _check_ledger(self, batch: SimBatch) -> None:
        """Every micro-step of the batch in progress is in exactly one state."""
        self.batch = batch
        per_group = self.case.workload.micro_steps_per_group
        total = sum(max(1, round(per_group * sum(g.drawn.works) / len(g.executions))) for g in batch.groups)
        assert min(batch.num_unclaimed, batch.num_claimed, batch.num_counted) >= 0
        assert batch.num_unclaimed + batch.num_claimed + batch.num_counted == total
        assert batch.num_claimed == sum(cell.num_uncounted for cell in self.world.cells)

    def _check_steps(self) -> None:
        """A step consumes the batch whole, and every micro-step of it was counted once."""
        if self.world.version == self.version:
            return
        assert self.world.version == self.version + 1
        self.version = self.world.version
        batch = self.batch
        assert batch is not None
        assert batch.number == self.version
        assert batch.sealed
        assert batch.groups
        self._check_counted(batch)
        assert all(group.state == "consumed" for group in batch.groups)

    def _check_counted(self, batch: SimBatch) -> None:
        assert batch.num_unclaimed == batch.num_claimed == 0
        per_group = self.case.workload.micro_steps_per_group
        total = sum(max(1, round(per_group * sum(g.drawn.works) / len(g.executions))) for g in batch.groups)
        assert batch.num_counted == total

    # What holds for every decision

    def _check_decisions(self, snapshot: facts.Snapshot, decisions: list[Decision]) -> None:
        settings, counters = snapshot.settings, snapshot.counters
        serving = {
            c.index
            for c in snapshot.cells
            if c.role == facts.ROLLOUT and c.desired_role == facts.ROLLOUT and c.evaluation is None
        }
        waterlevel = counters.waterlevel
        assert all(decision.reason and decision.reason_code for decision in decisions)
        for decision in (d for d in decisions if d.accepted):
            params = decision.params
            if decision.kind is Kind.DISPATCH_BURST:
                self._check_burst(snapshot)
                size = params.num_groups * params.executions_per_group
                assert size <= settings.cells * settings.concurrency_per_cell
                waterlevel += size
            elif decision.kind in (Kind.START_EVALUATION, Kind.RESERVE_CELL):
                serving.discard(decision.cell_index)  # type: ignore[arg-type]
            elif decision.kind is Kind.LEAVE_ROLLOUT:
                assert decision.cell_index in serving
                self.num_leaves += 1
                if self.case.policy_kind not in EXEMPT_FROM_CAPACITY:
                    staying = len(serving) - 1
                    assert staying * settings.concurrency_per_cell >= waterlevel, "capacity rule"
                    assert waterlevel == 0 or staying >= settings.min_rollout_cells
                serving.discard(decision.cell_index)  # type: ignore[arg-type]
            elif decision.kind is Kind.LAUNCH:
                self.num_launches += 1
                assert 0 < params.count <= counters.waiting
                assert counters.occupied + params.count <= len(serving) * settings.concurrency_per_cell
            elif decision.kind is Kind.ADMIT_GROUP:
                self._check_staleness(snapshot, params.group)

    def _check_burst(self, snapshot: facts.Snapshot) -> None:
        """Strict bursts follow each other as S and lead say; a policy that mixes them keeps at most a batch over."""
        settings = snapshot.settings
        outstanding = [b.num_unfinished + b.num_admitted + len(b.ready) for b in snapshot.bursts]
        if policy_of(self.case.policy_kind).mixes_bursts and not settings.burst_lead:
            assert sum(outstanding) <= settings.groups_per_batch
            return
        assert sum(outstanding) <= settings.burst_lead * settings.groups_per_batch
        assert sum(-(-n // settings.groups_per_batch) for n in outstanding) <= settings.burst_lead

    def _check_staleness(self, snapshot: facts.Snapshot, group_id: int) -> None:
        """No token is trained beyond the bound: every execution began at a version young enough."""
        group = self.groups[group_id]
        assert group.state == "ready"
        version = snapshot.version if snapshot.batch is None else snapshot.batch.version
        for execution in group.executions:
            self.num_trained += 1
            assert execution.done
            assert group.burst.version <= execution.launch_version <= version
            assert version - execution.launch_version <= snapshot.settings.max_staleness, "staleness bound"
            assert execution.launch_version - 1e-6 <= execution.mean_version <= version + 1e-6, "mean version of tokens"

    # What holds at the end

    def _check_end(self) -> None:
        world, settings, tally = self.world, self.case.settings, self.world.tally
        assert world.done
        assert world.version == settings.steps == len(tally.steps)
        assert world.rollout.dispatched == world.rollout.launched == world.rollout.finished == tally.num_executions
        assert not world.rollout.waiting
        assert world.rollout.pool.num_running == 0
        assert {group.state for group in self.groups.values()} <= {"consumed", "void"}
        assert len(self.groups) * settings.executions_per_group == world.rollout.dispatched
        every = settings.eval_every_steps
        due = [v for v in range(settings.steps + 1) if every and (v % every == 0 or v == settings.steps)]
        assert world.evaluations.evaluated == due
        assert self.num_trained == sum(step.num_groups for step in tally.steps) * settings.executions_per_group
