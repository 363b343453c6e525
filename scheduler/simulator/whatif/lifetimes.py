"""How long executions take, from those that ended and those that still run.

What still runs has lasted longer than it has so far, which says something of its own: the product-limit estimator of
Kaplan and Meier (1958) gives each duration that was seen its probability under that knowledge.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from random import Random


class Lifetimes:
    """Durations in seconds at full load, with the probability of each."""

    def __init__(self, ended: Iterable[float], running: Iterable[float], longest_s: float) -> None:
        """`ended`: what executions took; `running`: how long others have run so far; nothing outlasts `longest_s`."""
        self.longest_s = longest_s
        events = sorted([(seconds, 0) for seconds in ended] + [(seconds, 1) for seconds in running])
        survival, at_risk = 1.0, len(events)
        self.seconds: list[float] = []
        self.masses: list[float] = []
        for seconds, censored in events:
            if not censored:
                self.seconds.append(seconds)
                self.masses.append(survival / at_risk)
                survival -= survival / at_risk
            at_risk -= 1
        self.beyond = max(0.0, survival) if self.masses else 1.0  # of outlasting everything that was seen
        mean_s = sum(s * m for s, m in zip(self.seconds, self.masses, strict=True)) / max(1e-12, sum(self.masses))
        self._excess_s = self._mean_excess(events) or max(mean_s, 1.0)
        self._sums = [0.0, *accumulate(self.masses)]  # mass of all shorter durations

    def draw(self, random: Random, longer_than_s: float = 0.0) -> float:
        """A duration, given that it exceeds `longer_than_s`. Always the same number of random draws."""
        place, excess = random.random(), random.expovariate(1.0 / self._excess_s)
        first = bisect_right(self.seconds, longer_than_s)
        shorter = self._sums[first]
        wanted = shorter + place * (self._sums[-1] - shorter + self.beyond)
        found = max(first, bisect_right(self._sums, wanted) - 1)
        if found < len(self.seconds) and wanted < self._sums[-1]:
            return self.seconds[found]
        start = max(longer_than_s, self.seconds[-1] if self.seconds else 0.0)
        return max(min(start + excess, self.longest_s), longer_than_s * (1.0 + 1e-9))

    def _mean_excess(self, times: list[tuple[float, int]]) -> float:
        """Mean excess over the upper quartile, as of an exponential tail: time spent there per end that was seen."""
        if len(self.seconds) < 4:
            return 0.0
        start = self.seconds[3 * len(self.seconds) // 4]
        num_ends = sum(seconds > start for seconds in self.seconds)
        spent_s = sum(seconds - start for seconds, _ in times if seconds > start)
        return spent_s / num_ends if num_ends else 0.0
