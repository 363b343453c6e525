"""Bursts are drawn at once, from the very numbers that one execution after the other would have drawn."""

from math import cos, exp, log, pi, sin, sqrt
from random import Random

import pytest

from scheduler.simulator.core.durations import Durations
from scheduler.simulator.core.workload import Draw, Workload

SIZES = [1, 2, 3, 16]
WORKLOADS = [
    Workload(),
    Workload(unresolved_share=0.1, no_work_share=0.2),
    Workload(cap_h=2.0, log_sd_between=0.0),
    Workload(tail_share=0.2, tail_exponent=1.5, no_work_share=0.1, cap_h=100.0),
]


class OneByOne:
    """Box and Muller's pairs, a normal number for the group and one for each execution, then its tail and its fate."""

    def __init__(self, workload: Workload, random: Random) -> None:
        self.w, self.random = workload, random
        self.normals: list[float] = []

    def normal(self) -> float:
        if not self.normals:
            angle, rest = 2.0 * pi * self.random.random(), 1.0 - self.random.random()
            self.normals = [function(angle) * sqrt(-2.0 * log(rest)) for function in (sin, cos)]
        return self.normals.pop()

    def group(self, size: int) -> list[Draw]:
        median_s = 3600.0 * self.w.execution_h * exp(self.w.log_sd_between * self.normal())
        return [self.execution(median_s) for _ in range(size)]

    def execution(self, median_s: float) -> Draw:
        w = self.w
        seconds = median_s * exp(w.log_sd_within * self.normal())
        tail, fate = self.random.random(), self.random.random()
        if tail < w.tail_share:
            seconds /= (1.0 - self.random.random()) ** (1.0 / w.tail_exponent)
        works, votes = fate >= w.unresolved_share + w.no_work_share, fate >= w.unresolved_share
        return Draw(min(seconds * (0.1 if votes and not works else 1.0), 3600.0 * w.cap_h), votes, works)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_seed_draws_the_same_executions_in_bursts_as_one_by_one(workload: Workload, size: int) -> None:
    durations, slow = Durations(workload, size, Random("seed 5")), OneByOne(workload, Random("seed 5"))
    number = 0
    for count in (1, 5, 0, 72, 300, 7):
        groups = [drawn.draws() for drawn in durations.groups(number, count)]
        number += count
        assert len(groups) == count
        for group in groups:
            expected = slow.group(size)
            assert [draw.seconds for draw in group] == pytest.approx([draw.seconds for draw in expected], rel=1e-12)
            assert [draw[1:] for draw in group] == [draw[1:] for draw in expected]


def test_recorded_groups_are_replayed_and_start_again_at_the_first() -> None:
    durations = Durations(Workload(), 2, Random(1), ((1.0, 2.0), (3.0,)))
    assert [drawn.seconds for drawn in durations.groups(1, 3)] == [[3.0, 3.0], [1.0, 2.0], [3.0, 3.0]]
