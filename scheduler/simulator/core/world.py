"""A world in which a run takes place: events on a heap, decisions by the code that runs cells (docs/algorithms.md §12).

`decide` is asked whenever something that it reads has changed; `exhaustive=True` asks after every event, and tests
compare the two.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import log
from random import Random

from scheduler.core import snapshot as facts
from scheduler.core.counters import Counters
from scheduler.core.decide import decide
from scheduler.core.decisions import Decision, Kind
from scheduler.core.policies import policy_of
from scheduler.core.settings import Settings
from scheduler.simulator.core.durations import Durations, Groups
from scheduler.simulator.core.parts import SimBatch, SimBurst, SimCell, SimEvaluation, SimGroup
from scheduler.simulator.core.pool import INFINITE, STALE_S, Execution, Pool
from scheduler.simulator.core.result import Result
from scheduler.simulator.core.stuck import Stuck, count_failure, why_stuck, why_unsettled, why_void
from scheduler.simulator.core.tally import Tally
from scheduler.simulator.core.workload import HOUR_S, Workload

Event = tuple[float, int, Callable[..., None], tuple[object, ...]]
MAX_ROUNDS = 50
#: Where rounding puts the moment to ask again at the present one, it is asked this much later.
ROUNDING_S = 1e-3
TICK_S = 1e-6


class World:
    """One simulated run. Deterministic by its seed."""

    def __init__(
        self,
        settings: Settings,
        workload: Workload,
        policy_kind: str,
        seed: int,
        *,
        recorded: tuple[tuple[float, ...], ...] = (),
        overrides: tuple[facts.Override, ...] = (),
        on_decisions: Callable[[facts.Snapshot, list[Decision]], None] | None = None,
        exhaustive: bool = False,
    ) -> None:
        self.settings, self.workload, self.policy = settings, workload, policy_of(policy_kind)
        self.on_decisions, self.exhaustive, self.overrides = on_decisions, exhaustive or bool(overrides), overrides
        self.random = Random(f"faults {seed}")
        self.durations: Groups = Durations(
            workload, settings.executions_per_group, Random(f"durations {seed}"), recorded
        )
        self.now_s = 0.0
        self.heap: list[Event] = []
        self.num_events = self.seq = 0
        self.pool = Pool(workload.slowdown, settings.concurrency_per_cell, workload.harness_timeout_s)
        self.version = self.dispatched = self.launched = self.finished = 0
        self.waiting: list[Execution] = []  # newest first
        self.bursts: list[SimBurst] = []
        self.num_bursts = self.num_groups = self.num_void_in_a_row = self.num_evaluations = 0
        self.batch: SimBatch | None = None
        self.evaluation: SimEvaluation | None = None
        self.evaluated: list[int] = []
        self.alarm = self.done = False
        factor = workload.training_factor(settings.j_max)
        self.micro_step_s = HOUR_S * workload.train_cell_h * factor / settings.groups_per_batch
        self.micro_step_s /= workload.micro_steps_per_group
        #: By the number of cells that compute, itself included.
        self.micro_steps_s = [
            self.micro_step_s / workload.dp_efficiency ** (num - 1) for num in range(settings.cells + 1)
        ]
        self.cells = [SimCell(i, i == 0, lane=[(0.0, facts.ROLLOUT)]) for i in range(settings.cells)]
        self.tally = Tally(settings, workload)
        self._work = facts.Work()
        self._dirty = True
        self._wake_s = INFINITE
        self.pool_end_s = INFINITE
        self._resumed_s = -1.0
        self._num_left = 0  # cells that leave rollout by the decisions being carried out
        self._serving_changed()
        if workload.cell_failures_per_h:
            for cell in self.cells:
                self._plan_failure(cell)
        self._plan_ends_of_orders()

    # Time

    def at(self, delay_s: float, action: Callable[..., None], *arguments: object) -> None:
        self.seq += 1
        heappush(self.heap, (self.now_s + delay_s, self.seq, action, arguments))

    def run(self, until: Callable[[World], bool] | None = None) -> None:
        """To the end of the run. Raises Stuck. `until` is asked after every evaluation of `decide`."""
        heap, pool = self.heap, self.pool
        while not self.done:
            if self._dirty or self.exhaustive:
                self._decide()
                if self.done or (until is not None and until(self)):
                    break
            end_s = self.pool_end_s
            if end_s < 0.0:
                end_s = self.pool_end_s = pool.next_end_s()
            if heap and heap[0][0] < end_s:
                self.now_s, _, action, arguments = heappop(heap)
                self.num_events += 1
                action(*arguments)
            elif end_s < INFINITE:
                self.num_events += 1
                execution, timed_out = pool.end()
                self.now_s = pool.now_s
                self.pool_end_s = STALE_S
                self._ended(execution, timed_out)
            else:
                raise Stuck(why_stuck(self))
        pool.advance(self.now_s)

    def result(self, seed: int) -> Result:
        """What the run came to. Call it once, at the end."""
        return self.tally.result(
            policy=self.policy.kind,
            seed=seed,
            now_s=self.now_s,
            cells=self.cells,
            pool=self.pool,
            num_groups=self.num_groups,
            events=self.num_events,
            evaluations=self.num_evaluations,
            micro_step_s=self.micro_step_s,
        )

    def _touch_pool(self) -> None:
        self.pool_end_s = STALE_S

    # Deciding

    @property
    def awaits_moment(self) -> bool:
        """A refusal said when to ask again; it may be over a little before that."""
        return self.now_s <= self._wake_s < INFINITE

    def snapshot(self) -> facts.Snapshot:
        """What the scheduler would read from its rows. The cells that serve share the calls evenly."""
        num_calls = self.pool.num_running // max(1, self.pool.num_cells)
        return facts.Snapshot(
            taken_at_s=self.now_s,
            policy_kind=self.policy.kind,
            version=self.version,
            counters=Counters(self.dispatched, self.launched, self.finished),
            settings=self.settings,
            cells=tuple([cell.snapshot(num_calls if cell.serves else 0) for cell in self.cells]),
            bursts=tuple([burst.snapshot() for burst in self.bursts]),
            batch=self.batch.snapshot() if self.batch is not None else None,
            evaluation=self.evaluation.snapshot() if self.evaluation is not None else None,
            evaluated=tuple(self.evaluated),
            overrides=self.overrides,
            work=self._work,
            next_burst=self.num_bursts,
            next_evaluation=len(self.evaluated),
            num_void_in_a_row=self.num_void_in_a_row,
        )

    def _decide(self) -> None:
        """Decide and carry out until nothing more is accepted at this instant."""
        for _ in range(MAX_ROUNDS):
            self._dirty = False
            snapshot = self.snapshot()
            decisions = decide(snapshot, self.policy, self.now_s)
            self.num_evaluations += 1
            if self.on_decisions is not None:
                self.on_decisions(snapshot, decisions)
            accepted = [decision for decision in decisions if decision.accepted]
            for decision in accepted:
                self._carry_out[decision.kind](self, decision)
            if self._num_left:
                self._move_calls()
            if not accepted or (self.on_decisions is None and all(d.kind is Kind.LAUNCH for d in accepted)):
                self._wake_later(decisions)  # launches come last, and nothing depends on them
                return
            if self.done or self.alarm:
                break
        if self.alarm:
            raise Stuck(why_void(self, accepted[-1].reason))
        if not self.done:
            raise Stuck(why_unsettled(self, accepted))

    def _wake_later(self, decisions: list[Decision]) -> None:
        again_s = min((d.params["again_s"] for d in decisions if "again_s" in d.params), default=INFINITE)
        again_s = max(again_s, self.now_s + TICK_S)  # a wait may be over but for the last digit
        if again_s < INFINITE and not (self.now_s < self._wake_s <= again_s + TICK_S):
            self._wake_s = again_s
            self.at(again_s - self.now_s, self._wake)

    def _plan_ends_of_orders(self) -> None:
        for order in self.overrides:
            if self.now_s < order.expires_at_s < INFINITE:
                self.at(order.expires_at_s - self.now_s, self._wake)

    def _wake(self) -> None:
        self._dirty = True

    # Rollout

    def _dispatch_burst(self, decision: Decision) -> None:
        params = decision.params
        size, per_group = params["groups_per_batch"], params["executions_per_group"]
        count = params["num_groups"]
        burst = SimBurst(params["number"], self.version, params["max_staleness"], size, count)
        self.bursts.append(burst)
        self.num_bursts += 1
        fresh: list[Execution] = []
        for drawn in self.durations.groups(self.num_groups, count):
            group = SimGroup(self.num_groups, burst, drawn, per_group)
            group.executions = [Execution(group, seconds) for seconds in drawn.seconds]
            self.num_groups += 1
            fresh += group.executions
        self.dispatched += len(fresh)
        self.waiting = fresh[::-1] + self.waiting
        self.tally.water(self.now_s, self.dispatched - self.finished)

    def _launch(self, decision: Decision) -> None:
        self.start(decision.params["count"])

    def start(self, count: int) -> None:
        self.pool.advance(self.now_s)
        self.launched += count
        first = len(self.waiting) - count
        executions = self.waiting[: first - 1 if first else None : -1]
        del self.waiting[first:]
        self.pool.start(executions)
        self._touch_pool()

    def _ended(self, execution: Execution, timed_out: bool) -> None:
        self.tally.ended(execution, timed_out, self.now_s)
        if self.workload.evaluation_s:
            self.at(self.workload.evaluation_s, self._finished, execution)
        else:
            self._finished(execution)

    def _finished(self, execution: Execution) -> None:
        """F rises. `decide` is asked when a waiting execution may have a place, when a group is complete, and when the
        waterlevel passes what some cells hold.
        """
        self.finished += 1
        group: SimGroup = execution.group  # type: ignore[assignment]  # a pool does not know groups
        execution.group = None
        group.num_owed -= 1
        waterlevel = self.dispatched - self.finished
        if self.waiting or waterlevel % self.settings.concurrency_per_cell == 0:
            self._dirty = True
        if not group.num_owed:
            self._settle(group)
            self._dirty = True
        self.tally.water(self.now_s, waterlevel)

    def _settle(self, group: SimGroup) -> None:
        """A group whose last execution has finished is ready or void."""
        burst = group.burst
        group.settled_s = burst.settled_s = self.now_s
        burst.num_unfinished -= 1
        if sum(group.drawn.votes) >= self.workload.min_votes:
            group.state = "ready"
            burst.ready[group.id] = facts.ReadyGroup(group.id, self.now_s)
            self.tally.ready[group.id] = group
            self.num_void_in_a_row = 0
        else:
            group.state = "void"
            self.num_void_in_a_row += 1
            self._drop_used_bursts()
        self.tally.settled(group)

    def _drop_used_bursts(self) -> None:
        self.bursts = [burst for burst in self.bursts if burst.outstanding]

    # Roles

    def _serving_changed(self) -> None:
        self.pool.advance(self.now_s)
        self.pool.set_cells(sum(cell.serves for cell in self.cells))
        self._touch_pool()

    def _leave_rollout(self, decision: Decision) -> None:
        assert decision.cell_index is not None
        self._num_left += 1
        self._switch(self.cells[decision.cell_index], facts.TRAINING)

    def _move_calls(self) -> None:
        """Calls of cells that have left rollout together go on at those that stay; with none left they are held."""
        left, self._num_left = self._num_left, 0
        if staying := self.pool.num_cells:
            self.pool.stall(self.workload.move_stall_s, left / (left + staying))
            self._touch_pool()

    def _return_to_rollout(self, decision: Decision) -> None:
        assert decision.cell_index is not None
        self._switch(self.cells[decision.cell_index], facts.ROLLOUT)

    def _switch(self, cell: SimCell, role: str) -> None:
        cell.desired_role = role
        if not cell.computing:
            self._begin_switch(cell)
        self._serving_changed()

    def _begin_switch(self, cell: SimCell) -> None:
        if cell.role == facts.SWITCHING:
            return
        self._hand_in(cell)
        cell.become(facts.SWITCHING, self.now_s)
        to_training = cell.desired_role == facts.TRAINING
        takes_s = self.workload.to_training_s if to_training else self.workload.to_rollout_s
        self.at(takes_s, self._end_switch, cell, cell.epoch, takes_s)

    def _end_switch(self, cell: SimCell, epoch: int, took_s: float) -> None:
        if cell.epoch != epoch:
            return
        cell.become(cell.desired_role, self.now_s)
        if cell.role == facts.TRAINING:
            cell.to_training_s = took_s
            self.tally.switches["to_training"] += 1
            self._train(cell)
            self._dirty = True
            return
        cell.to_rollout_s = took_s
        cell.weight_version = self.version
        self.tally.switches["to_rollout"] += 1
        was_held = self.pool.num_cells == 0
        self._serving_changed()
        if was_held and cell.serves:
            self.pool.stall(self.workload.resume_stall_s, 1.0)
            self._resumed_s = self.now_s
        elif cell.serves and self._resumed_s != self.now_s:
            self.pool.stall(self.workload.move_stall_s, 1.0 / self.pool.num_cells)
        self._touch_pool()
        self._dirty = True

    # Training

    def _open_batch(self, decision: Decision) -> None:
        params = decision.params
        assert self.batch is None
        self.batch = SimBatch(params["number"], params["burst"], self.version, self.now_s)

    def _admit_group(self, decision: Decision) -> None:
        assert self.batch is not None
        self.admit(self.tally.ready[decision.params["group"]], self.batch)

    def admit(self, group: SimGroup, batch: SimBatch) -> None:
        assert not batch.sealed
        burst = group.burst
        del self.tally.ready[group.id]
        del burst.ready[group.id]
        burst.num_admitted += 1
        group.state = "admitted"
        self.tally.admitted(group, batch)
        batch.groups.append(group)
        num = group.num_micro_steps(self.workload.micro_steps_per_group)
        batch.num_micro_steps += num
        batch.num_unclaimed += num
        self._wake_trainers()

    def _seal_batch(self, decision: Decision) -> None:
        assert self.batch is not None
        self.batch.sealed = True
        self._wake_trainers()

    def _wake_trainers(self) -> None:
        for cell in self.cells:
            if cell.role == facts.TRAINING and not cell.computing:
                self._train(cell)

    def _train(self, cell: SimCell) -> None:
        """Claim a micro-step; with none left of a sealed batch hand in, and step when all is counted."""
        batch = self.batch
        if batch is None or cell.computing or cell.role != facts.TRAINING or cell.desired_role != facts.TRAINING:
            return
        if batch.num_unclaimed:
            batch.num_unclaimed -= 1
            batch.num_claimed += 1
            cell.num_uncounted += 1
            cell.last_claim_s, cell.computing = self.now_s, True
            self.tally.num_computing += 1
            seconds = self.micro_steps_s[self.tally.num_computing]
            self.at(seconds, self._computed, cell, cell.epoch, seconds)
            if not batch.num_unclaimed:
                self._dirty = True
        elif batch.sealed:
            self._hand_in(cell)
            self._try_step()

    def _computed(self, cell: SimCell, epoch: int, seconds: float) -> None:
        if cell.epoch != epoch:
            return
        cell.computing = False
        self.tally.num_computing -= 1
        self.tally.computed(seconds)
        if cell.desired_role == facts.TRAINING:
            self._train(cell)
            if not cell.computing and (self.batch is None or not self.batch.sealed):
                self._dirty = True
        else:
            self._begin_switch(cell)
            self._try_step()

    def _hand_in(self, cell: SimCell) -> None:
        if self.batch is not None and cell.num_uncounted:
            self.batch.num_claimed -= cell.num_uncounted
            self.batch.num_counted += cell.num_uncounted
            cell.num_uncounted = 0
            if cell.desired_role != facts.TRAINING and (self.settings.eval_every_steps or self.awaits_moment):
                self._dirty = True  # an evaluation may wait for such a cell

    def _try_step(self) -> None:
        batch, core = self.batch, self.cells[0]
        if batch is None or not batch.sealed or batch.stepping or batch.num_unclaimed or batch.num_claimed:
            return
        if core.role == core.desired_role == facts.TRAINING and not core.computing:
            batch.stepping = True
            self.at(self.workload.commit_s, self._stepped, batch, core.epoch)

    def _stepped(self, batch: SimBatch, epoch: int) -> None:
        core = self.cells[0]
        if core.epoch != epoch or self.batch is not batch:
            batch.stepping = False
            return
        if core.role != facts.TRAINING:
            batch.stepping = False
            self._dirty = True
            return
        pool = self.pool
        pool.advance(self.now_s)
        self.version += 1
        pool.renew(self.version)
        for group in batch.groups:
            group.state = "consumed"
            group.burst.num_admitted -= 1
        self._drop_used_bursts()
        self.tally.stepped(batch, self.now_s)
        self.batch = None
        self._work = self.tally.work()
        for cell in self.cells:
            cell.last_claim_s = None
            if cell.role == facts.ROLLOUT and cell.evaluation is None:
                cell.weight_version = self.version
                if pool.num_cells:
                    pool.stall(self.workload.update_stall_s, 1.0 / pool.num_cells)
        self._touch_pool()
        self._dirty = True

    # Evaluations

    def _start_evaluation(self, decision: Decision) -> None:
        params = decision.params
        self.evaluation = SimEvaluation(params["number"], params["version"], params["num_tasks"])
        self.evaluated.append(params["version"])
        self._reserve_cell(decision)

    def _reserve_cell(self, decision: Decision) -> None:
        assert decision.cell_index is not None
        cell = self.cells[decision.cell_index]
        cell.evaluation = decision.params["number"]
        if cell.desired_role != facts.ROLLOUT:
            self._switch(cell, facts.ROLLOUT)
        self._serving_changed()

    def _launch_evaluation(self, decision: Decision) -> None:
        evaluation, count = self.evaluation, decision.params["count"]
        assert evaluation is not None
        evaluation.num_waiting -= count
        evaluation.num_running += count
        workload = self.workload
        slow = workload.slowdown(min(1.0, count / self.settings.concurrency_per_cell))
        log_mean, log_sd = log(HOUR_S * workload.eval_execution_h * slow), workload.eval_log_sd
        for _ in range(count):
            seconds = self.random.lognormvariate(log_mean - log_sd**2 / 2.0, log_sd)
            self.at(seconds, self._evaluated_one, evaluation)

    def _evaluated_one(self, evaluation: SimEvaluation) -> None:
        if self.evaluation is evaluation:
            evaluation.num_running -= 1
            if not evaluation.num_running and not evaluation.num_waiting:
                self._end_evaluation()
            self._dirty = True

    def _end_evaluation(self) -> None:
        for cell in self.cells:
            if cell.evaluation is not None:
                cell.evaluation = None
                if cell.role == facts.ROLLOUT:
                    cell.weight_version = self.version
        self.evaluation = None
        self._serving_changed()

    def _cancel_evaluation(self, decision: Decision) -> None:
        self._end_evaluation()

    # Faults and ends

    def _plan_failure(self, cell: SimCell) -> None:
        self.at(HOUR_S * self.random.expovariate(self.workload.cell_failures_per_h), self._fail, cell)

    def _fail(self, cell: SimCell) -> None:
        """A cell dies: its claims return; with the core the open batch's ledger is reset. It comes back repaired."""
        self._plan_failure(cell)
        count_failure(self)
        if cell.role in (facts.LOST, facts.STARTING):
            return
        self.tally.num_failures += 1
        served = cell.serves and self.pool.num_cells > 1
        if self.batch is not None:
            self._lose_claims(cell, self.batch)
        if cell.computing:
            cell.computing = False
            self.tally.num_computing -= 1
        cell.epoch += 1
        cell.become(facts.LOST, self.now_s)
        cell.desired_role, cell.evaluation = facts.ROLLOUT, None
        if served:
            self.pool.advance(self.now_s)
            self.pool.stall(self.workload.move_stall_s, 1.0 / self.pool.num_cells)
        self._serving_changed()
        self._wake_trainers()
        self._dirty = True
        self.at(self.workload.repair_s, self._end_switch, cell, cell.epoch, self.workload.to_rollout_s)

    def _lose_claims(self, cell: SimCell, batch: SimBatch) -> None:
        if cell.is_core:
            batch.num_unclaimed += batch.num_claimed + batch.num_counted
            batch.num_claimed = batch.num_counted = 0
            batch.stepping = False
            for other in self.cells:
                other.num_uncounted, other.last_claim_s = 0, None
        else:
            batch.num_unclaimed += cell.num_uncounted
            batch.num_claimed -= cell.num_uncounted
            cell.num_uncounted, cell.last_claim_s = 0, None

    def _raise_alarm(self, decision: Decision) -> None:
        self.alarm = True

    def _finish_run(self, decision: Decision) -> None:
        self.done = True

    _carry_out: dict[Kind, Callable[[World, Decision], None]] = {
        Kind.DISPATCH_BURST: _dispatch_burst,
        Kind.LAUNCH: _launch,
        Kind.LEAVE_ROLLOUT: _leave_rollout,
        Kind.RETURN_TO_ROLLOUT: _return_to_rollout,
        Kind.OPEN_BATCH: _open_batch,
        Kind.ADMIT_GROUP: _admit_group,
        Kind.SEAL_BATCH: _seal_batch,
        Kind.START_EVALUATION: _start_evaluation,
        Kind.RESERVE_CELL: _reserve_cell,
        Kind.LAUNCH_EVALUATION: _launch_evaluation,
        Kind.CANCEL_EVALUATION: _cancel_evaluation,
        Kind.RAISE_ALARM: _raise_alarm,
        Kind.FINISH_RUN: _finish_run,
    }
