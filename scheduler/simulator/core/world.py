"""A world in which a run takes place: events on a heap, decisions by the code that runs cells (docs/algorithms.md §12).

`decide` is asked whenever something that it reads has changed; `exhaustive=True` asks after every event, and tests
compare the two. What happens in rollout, in training, to roles, in evaluations and by faults stands in modules of
these names.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from scheduler.core import snapshot as facts
from scheduler.core.counters import Counters
from scheduler.core.decide import decide
from scheduler.core.decisions import (
    AdmitGroup,
    Decision,
    DispatchBurst,
    Kind,
    Launch,
    LaunchEvaluation,
    OpenBatch,
    ReserveCell,
    StartEvaluation,
)
from scheduler.core.policies import policy_of
from scheduler.core.settings import Settings
from scheduler.simulator.core.agenda import Agenda
from scheduler.simulator.core.durations import Durations
from scheduler.simulator.core.evaluations import Evaluations
from scheduler.simulator.core.faults import Faults
from scheduler.simulator.core.parts import SimCell
from scheduler.simulator.core.pool import INFINITE
from scheduler.simulator.core.result import Result
from scheduler.simulator.core.roles import Roles
from scheduler.simulator.core.rollout import Rollout
from scheduler.simulator.core.stuck import Stuck, why_idle, why_unsettled, why_void
from scheduler.simulator.core.tally import Tally
from scheduler.simulator.core.training import Training
from scheduler.simulator.core.workload import HOUR_S, Workload

MAX_ROUNDS = 50


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
        began_s: float = 0.0,
        version: int = 0,
        tally: Tally | None = None,
    ) -> None:
        """`began_s` and `version`: when it begins on the run's clock, and at which weights. All its cells are in
        rollout then, and nothing is dispatched. `tally` counts in place of a new one.
        """
        self.settings, self.workload, self.policy = settings, workload, policy_of(policy_kind)
        self.on_decisions, self.exhaustive, self.overrides = on_decisions, exhaustive or bool(overrides), overrides
        self.began_s = began_s
        random = Random(f"faults {seed}")
        durations = Durations(workload, settings.executions_per_group, Random(f"durations {seed}"), recorded)
        self.agenda = agenda = Agenda(began_s)
        self.tally = tally = tally or Tally(settings, workload)
        self.cells = cells = [SimCell.fresh(index, version, began_s) for index in range(settings.cells)]
        self.rollout = Rollout(agenda, settings, workload, durations, tally)
        self.rollout.use_weights(version)
        self.training = Training(agenda, settings, workload, tally, self.rollout, cells, version)
        self.roles = Roles(agenda, workload, tally, cells, self.rollout, self.training)
        self.evaluations = Evaluations(agenda, settings, workload, self.roles, random)
        self.faults = Faults(agenda, workload, tally, self.roles, random)
        self.alarm = self.done = False
        self.num_evaluations = 0  # calls of `decide`
        self._num_leaving = 0  # cells that leave rollout by the decisions being carried out
        self.roles.serving_changed()
        for order in overrides:
            if began_s < order.expires_at_s < INFINITE:
                agenda.at(order.expires_at_s - began_s, agenda.ask)

    @property
    def now_s(self) -> float:
        return self.agenda.now_s

    @property
    def version(self) -> int:
        return self.training.version

    # The run

    def run(self, until: Callable[[World], bool] | None = None) -> None:
        """To the end of the run. Raises Stuck. `until` is asked after every call of `decide`."""
        try:
            self._run(until)
        except Stuck as stuck:
            hours = self.now_s / HOUR_S
            where = f"{self.policy.kind} stands at version {self.version} of {self.settings.steps} after {hours:.2f} h"
            raise Stuck(f"{where}: {stuck}") from None

    def _run(self, until: Callable[[World], bool] | None) -> None:
        agenda, pool = self.agenda, self.rollout.pool
        while not self.done:
            if agenda.must_decide or self.exhaustive:
                self._decide()
                if self.done or (until is not None and until(self)):
                    break
            end_s = pool.next_end_s()
            if agenda.heap and agenda.heap[0][0] < end_s:
                agenda.happen()
            elif end_s < INFINITE:
                self.rollout.end_next()
            else:
                raise Stuck(why_idle(decide(self.snapshot(), self.policy, self.now_s)))
        pool.advance(agenda.now_s)

    def result(self, seed: int) -> Result:
        """What the run came to since it began. Call it once, at the end. Series keep the run's clock."""
        return self.tally.result(
            policy=self.policy.kind,
            seed=seed,
            began_s=self.began_s,
            now_s=self.now_s,
            cells=self.cells,
            pool=self.rollout.pool,
            num_groups=self.rollout.num_groups,
            events=self.agenda.num_events,
            evaluations=self.num_evaluations,
            micro_step_s=self.training.micro_step_s,
        )

    # Deciding

    def snapshot(self) -> facts.Snapshot:
        """What the scheduler would read from its rows. The cells that serve share the calls evenly."""
        rollout, batch, evaluations = self.rollout, self.training.batch, self.evaluations
        num_calls = rollout.pool.num_running // max(1, rollout.pool.num_cells)
        return facts.Snapshot(
            taken_at_s=self.agenda.now_s,
            policy_kind=self.policy.kind,
            version=self.training.version,
            counters=Counters(rollout.dispatched, rollout.launched, rollout.finished),
            settings=self.settings,
            cells=tuple([cell.snapshot(num_calls if cell.serves else 0) for cell in self.cells]),
            bursts=tuple([burst.snapshot() for burst in rollout.bursts]),
            batch=batch.snapshot() if batch is not None else None,
            evaluation=evaluations.current.snapshot() if evaluations.current is not None else None,
            evaluated=tuple(evaluations.evaluated),
            overrides=self.overrides,
            work=self.training.measured,
            next_burst=rollout.num_bursts,
            next_evaluation=len(evaluations.evaluated),
            num_void_in_a_row=rollout.num_void_in_a_row,
        )

    def _decide(self) -> None:
        """Decide and carry out until nothing more is accepted at this instant."""
        for _ in range(MAX_ROUNDS):
            self.agenda.must_decide = False
            snapshot = self.snapshot()
            decisions = decide(snapshot, self.policy, self.now_s)
            self.num_evaluations += 1
            if self.on_decisions is not None:
                self.on_decisions(snapshot, decisions)
            accepted = [decision for decision in decisions if decision.accepted]
            for decision in accepted:
                self._carry_out[decision.kind](self, decision)
            if self._num_leaving:
                self.rollout.calls_moved(self._num_leaving)
                self._num_leaving = 0
            if not accepted or (self.on_decisions is None and all(d.kind is Kind.LAUNCH for d in accepted)):
                # Launches come last, and nothing depends on them.
                self.agenda.ask_again(min((d.again_s for d in decisions if d.again_s is not None), default=INFINITE))
                return
            if self.done or self.alarm:
                break
        if self.alarm:
            raise Stuck(why_void(self.settings, self.workload, accepted[-1].reason))
        if not self.done:
            raise Stuck(why_unsettled(accepted))

    # Carrying out

    def _cell(self, decision: Decision) -> SimCell:
        assert decision.cell_index is not None
        return self.cells[decision.cell_index]

    def _dispatch_burst(self, decision: Decision) -> None:
        self.rollout.dispatch(decision.expect(DispatchBurst))

    def _launch(self, decision: Decision) -> None:
        self.rollout.launch(decision.expect(Launch).count)

    def _leave_rollout(self, decision: Decision) -> None:
        self._num_leaving += 1
        self.roles.switch(self._cell(decision), facts.TRAINING)

    def _return_to_rollout(self, decision: Decision) -> None:
        self.roles.switch(self._cell(decision), facts.ROLLOUT)

    def _drain_cell(self, decision: Decision) -> None:
        cell = self._cell(decision)
        self._num_leaving += cell.serves
        self.roles.switch(cell, facts.STOPPED)

    def _start_cell(self, decision: Decision) -> None:
        self.roles.start(self._cell(decision))

    def _open_batch(self, decision: Decision) -> None:
        self.training.open(decision.expect(OpenBatch))

    def _admit_group(self, decision: Decision) -> None:
        self.training.admit(decision.expect(AdmitGroup).group)
        self.roles.wake_trainers()

    def _seal_batch(self, decision: Decision) -> None:
        self.training.seal()
        self.roles.wake_trainers()

    def _start_evaluation(self, decision: Decision) -> None:
        self.evaluations.start(decision.expect(StartEvaluation), self._cell(decision))

    def _reserve_cell(self, decision: Decision) -> None:
        self.evaluations.reserve(decision.expect(ReserveCell).number, self._cell(decision))

    def _launch_evaluation(self, decision: Decision) -> None:
        self.evaluations.launch(decision.expect(LaunchEvaluation).count)

    def _cancel_evaluation(self, decision: Decision) -> None:
        self.evaluations.end()

    def _raise_alarm(self, decision: Decision) -> None:
        self.alarm = True

    def _finish_run(self, decision: Decision) -> None:
        self.done = True

    _carry_out: dict[Kind, Callable[[World, Decision], None]] = {
        Kind.DISPATCH_BURST: _dispatch_burst,
        Kind.LAUNCH: _launch,
        Kind.LEAVE_ROLLOUT: _leave_rollout,
        Kind.RETURN_TO_ROLLOUT: _return_to_rollout,
        Kind.DRAIN_CELL: _drain_cell,
        Kind.START_CELL: _start_cell,
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
