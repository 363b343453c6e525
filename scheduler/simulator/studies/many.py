"""Run the jobs of a study, here or in other processes, with progress and a way to stop.

    for finished in run_many(study, on_progress=show, should_stop=lambda: cancelled):
        ...

Jobs come back in the order in which they end. A job that cannot go on comes back with an error; the others run on.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from time import process_time
from typing import Any

from scheduler.core.decisions import Decision
from scheduler.core.recorder import Recorder
from scheduler.core.snapshot import Snapshot
from scheduler.simulator.core import Result, Stuck, simulate
from scheduler.simulator.scenarios import BadScenario, Scenario
from scheduler.simulator.studies.signals import HeldSignals
from scheduler.simulator.studies.study import Job, Study

#: Seconds between two looks at `should_stop` while other processes work.
LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class Finished:
    """One job's end. Without a result, `error` says why. `cpu_s`: what it took to simulate."""

    job: Job
    result: Result | None
    error: str = ""
    cpu_s: float = 0.0


def run_many(
    study: Study,
    *,
    num_processes: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Iterator[Finished]:
    """Every job of the study. `on_progress(done, total)` is called after each; `should_stop` ends it between jobs.

    With one process all happens in this thread. Only the first seed of a policy keeps its series.
    """
    jobs = list(study.jobs())
    source = _here(study, jobs) if num_processes <= 1 else _elsewhere(study, jobs, num_processes, should_stop)
    try:
        for done, finished in enumerate(source, start=1):
            if on_progress is not None:
                on_progress(done, len(jobs))
            yield finished
            if should_stop is not None and should_stop():
                return
    finally:
        source.close()


def _here(study: Study, jobs: list[Job]) -> Generator[Finished, None, None]:
    for job in jobs:
        yield run_one(study.points[job.point].scenario, job, *_keeps(study, job))


def _elsewhere(
    study: Study, jobs: list[Job], num_processes: int, should_stop: Callable[[], bool] | None
) -> Generator[Finished, None, None]:
    pool = ProcessPoolExecutor(num_processes, mp_context=get_context("spawn"))
    signals = HeldSignals()
    try:
        with signals, _interrupts_blocked():
            waiting: set[Future[Finished]] = {
                pool.submit(run_one, study.points[job.point].scenario, job, *_keeps(study, job)) for job in jobs
            }
        while waiting:
            with signals:
                done, waiting = wait(waiting, timeout=LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                results = [future.result() for future in done]
            yield from results
            if should_stop is not None and should_stop():
                return
    finally:
        with signals:
            pool.shutdown(wait=True, cancel_futures=True)


def _keeps(study: Study, job: Job) -> tuple[bool, bool]:
    first = job.seed == study.seeds[0]
    return first, first and study.keep_decisions


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes that are started meanwhile never see Ctrl-C: this one does, and stops them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_one(scenario: Scenario, job: Job, keep_series: bool = True, keep_decisions: bool = False) -> Finished:
    """One simulated run, in this process."""
    settings = scenario.settings
    if job.training_cells is not None:
        settings = replace(settings, training_cells=job.training_cells)
    rows = DecisionRows() if keep_decisions else None
    began = process_time()
    try:
        result = simulate(
            settings, scenario.workload, job.policy, job.seed, recorded=scenario.recorded, on_decisions=rows
        )
    except (Stuck, BadScenario) as error:
        return Finished(job, None, str(error), process_time() - began)
    cpu_s = process_time() - began
    if rows is not None:
        result.decisions = rows.stored
    if not keep_series:
        result.step_rows, result.waterlevel, result.lanes = [], [], []
    return Finished(job, result, cpu_s=cpu_s)


class DecisionRows:
    """Collects decisions as rows like the live ones: `at_s` instead of `created_at`, snapshots with the first."""

    def __init__(self) -> None:
        self.stored: list[dict[str, Any]] = []
        self.recorder = Recorder()
        self.num_evaluations = 0

    def __call__(self, snapshot: Snapshot, decisions: list[Decision]) -> None:
        self.num_evaluations += 1
        for place, decision in enumerate(self.recorder.worth_storing(decisions, snapshot.taken_at_s)):
            self.stored.append(
                {
                    **decision.to_json(),
                    "number": len(self.stored) + 1,
                    "evaluation_number": self.num_evaluations,
                    "at_s": snapshot.taken_at_s,
                    "snapshot": None if place else snapshot.to_json(),
                }
            )
