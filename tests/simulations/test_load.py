"""Durations recorded under less than full load are converted by the model that the simulator slows them by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.snapshot import Work
from scheduler.observe import Measures
from scheduler.simulator.core import Workload
from scheduler.simulator.core.pool import Execution, Pool
from scheduler.simulator.studies.load import Loads, at_full_load, mean_load
from scheduler.simulator.studies.recorded import PastExecution, Recording

CONCURRENCY = 4
ROOM = [(0.0, 1), (1500.0, 0), (1800.0, 2)]  # no cell serves for five minutes: calls are held
ENDS = (100.0, 100.0, 400.0, 400.0)
SECONDS = (600.0, 900.0, 1400.0, 2000.0, 2600.0, 5000.0)


def _recording(workload: Workload) -> Recording:
    """What a run would have recorded of executions that the simulator's pool has run, three at 0 s, three at 200 s."""
    pool = Pool(workload.slowdown, CONCURRENCY, 1e9)
    executions = [Execution(place, seconds) for place, seconds in enumerate(SECONDS)]
    plan = [(0.0, "cells", 1), (0.0, "start", 3), (200.0, "start", 3), (1500.0, "cells", 0), (1800.0, "cells", 2)]
    waiting, ended = list(executions), {}
    while plan or len(ended) < len(executions):
        if plan and plan[0][0] <= pool.next_end_s():
            at_s, what, count = plan.pop(0)
            pool.advance(at_s)
            if what == "cells":
                pool.set_cells(count)
            else:
                pool.start(waiting[:count])
                del waiting[:count]
        else:
            pool.advance(pool.next_end_s())
            ended[pool.end()[0].group] = pool.now_s
    rows = []
    for execution in executions:
        end_s = ended[execution.group]
        held_s = 300.0 if end_s > 1800.0 else 0.0
        rows.append(
            PastExecution(
                execution.group // 2, execution.started_s, end_s, end_s, end_s - execution.started_s - held_s, 0.0,
                held_s, True, True, False, 0,
            )
        )  # fmt: skip
    return Recording(
        1, {}, "elastic", 0, 1e5, tuple(rows), frozenset({0, 1, 2}), (), (), (), None, (), Measures(Work(), {}, {})
    )


@pytest.mark.parametrize(("alpha", "environment_share"), [(0.4, 0.2), (0.75, 0.3), (1.0, 0.0), (0.0, 0.0)])
def test_what_the_load_did_is_taken_out_again(alpha: float, environment_share: float) -> None:
    workload = Workload(alpha=alpha, environment_share=environment_share)
    recording = _recording(workload)
    took = [row.took_s for row in recording.executions]
    groups = at_full_load(recording, Loads.of(recording, ROOM, CONCURRENCY), workload)
    assert [seconds for group in groups for seconds in group] == pytest.approx(SECONDS)
    assert took != pytest.approx(SECONDS)


def test_the_mean_load_is_weighed_by_time() -> None:
    """Four executions share two cells of four places for 100 s; two go on for 300 s."""
    rows = [
        PastExecution(0, 0.0, end, end, end, 0.0, 0.0, True, True, False, 0) for end in (100.0, 100.0, 400.0, 400.0)
    ]
    recording = replace(_recording(Workload()), executions=tuple(rows))
    loads = Loads.of(recording, [(0.0, 2)], CONCURRENCY)
    assert list(loads.stretches(50.0, 250.0)) == [(50.0, 0.5), (150.0, 0.25)]
    assert mean_load(recording, loads) == pytest.approx((4 * 100 * 0.5 + 2 * 300 * 0.25) / (4 * 100 + 2 * 300))
