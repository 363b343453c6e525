"""Finished jobs gathered point by point. What a complete point no longer needs is let go."""

from __future__ import annotations

from collections import Counter, defaultdict

from scheduler.simulator.studies.many import Finished
from scheduler.simulator.studies.study import Study
from scheduler.simulator.studies.summary import Summary, summarise


class Points:
    """`add` gives a point's summary once all its jobs are there; `begun` sums up those that an interrupt cut."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.num_finished = self.num_failed = 0
        self._missing = Counter(job.point for job in study.jobs())
        self._jobs: dict[int, list[Finished]] = defaultdict(list)

    def add(self, item: Finished) -> Summary | None:
        number = item.job.point
        self.num_finished += 1
        self.num_failed += item.result is None
        self._jobs[number].append(item)
        self._missing[number] -= 1
        if self._missing[number]:
            return None
        return summarise(self.study, self.study.points[number], self._jobs.pop(number))

    def begun(self) -> list[Summary]:
        return [summarise(self.study, self.study.points[number], jobs) for number, jobs in sorted(self._jobs.items())]
