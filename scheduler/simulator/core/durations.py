"""What executions will need, drawn for a whole burst at once (docs/algorithms.md §12).

A burst's uniform numbers are drawn in one go: numpy's generator, given the state of a `random.Random`, yields the very
numbers that this would. numpy's `exp`, `log`, `sin` and `cos` may differ from those of `math` in the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, exp, log, pi, sin, sqrt
from random import Random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.simulator.core.workload import HOUR_S, Drawn, Workload

Floats = NDArray[np.float64]
TWO_PI = 2.0 * pi
#: Groups drawn at once, or more.
NUM_AHEAD = 256
#: Time of an execution that gives no training work, relative to what it would have been.
NO_WORK_TIME = 0.1


class Groups(Protocol):
    """Where a world takes its groups from, a burst at a time."""

    def groups(self, first: int, count: int) -> list[Drawn]:
        """The executions of `count` groups, the first of them with the number `first`."""
        ...


class Durations:
    """Executions of groups, drawn from a workload or replayed from recorded groups."""

    def __init__(
        self, workload: Workload, size: int, random: Random, recorded: Sequence[tuple[float, ...]] = ()
    ) -> None:
        """Groups have `size` executions.

        `recorded`: seconds per execution, a tuple per group; groups beyond them start again at the first.
        """
        self.workload, self.size, self.recorded = workload, size, recorded
        self._uniform = _continued(random)
        self._all = [True] * size
        self._spare: float | None = None  # the second normal number of a pair
        self._ahead: list[Drawn] = []  # drawn, and not yet asked for

    def groups(self, first: int, count: int) -> list[Drawn]:
        """The executions of `count` groups, the first of them with the number `first`.

        Every group takes the same number of draws, unless there are tails.
        """
        if self.recorded:
            return [self._replayed(number) for number in range(first, first + count)]
        if self.workload.tail_share:
            return [self._one_by_one() for _ in range(count)]
        if len(self._ahead) < count:
            self._ahead += self._at_once(max(count, NUM_AHEAD))
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken

    def _replayed(self, number: int) -> Drawn:
        measured = self.recorded[number % len(self.recorded)]
        return Drawn([measured[place % len(measured)] for place in range(self.size)], self._all, self._all)

    # The order of draws: a group's normal number, then for each execution a normal number, its tail, its fate. Normal
    # numbers come in pairs (Box and Muller's method): every second one takes two uniform numbers, the other none.

    def _one_by_one(self) -> Drawn:
        """Executions of one group; one with a tail takes a draw more."""
        uniform, w = self._uniform.random_sample, self.workload
        median_s = HOUR_S * w.execution_h * exp(self._normal() * w.log_sd_between)
        seconds, fates = [], []
        for _ in range(self.size):
            seconds.append(median_s * exp(self._normal() * w.log_sd_within))
            tail, fate = uniform(), uniform()
            if tail < w.tail_share:
                seconds[-1] *= (1.0 - uniform()) ** (-1.0 / w.tail_exponent)
            fates.append(fate)
        return self._with_fates(seconds, fates)

    def _normal(self) -> float:
        if self._spare is not None:
            normal, self._spare = self._spare, None
            return normal
        angle = self._uniform.random_sample() * TWO_PI
        radius = sqrt(-2.0 * log(1.0 - self._uniform.random_sample()))
        self._spare = sin(angle) * radius
        return cos(angle) * radius

    def _at_once(self, count: int) -> list[Drawn]:
        """The same for groups without tails, all of them at once."""
        w, size = self.workload, self.size
        group, place = np.divmod(np.arange(count * (size + 1)), size + 1)  # of each normal number; place 0: the group's
        is_first = (np.arange(count * (size + 1)) + (self._spare is not None)) % 2 == 0  # of its pair
        num_pairs = np.cumsum(is_first)
        num_uniform = 2 * (num_pairs + group * size + np.maximum(place - 1, 0))  # drawn up to and with its own
        uniform = self._uniform.random_sample(2 * (int(is_first.sum()) + count * size))
        angles = num_uniform[is_first] - 2
        normals = self._normals(len(place), uniform[angles] * TWO_PI, uniform[angles + 1]).reshape(count, size + 1)
        medians_s = HOUR_S * w.execution_h * np.exp(normals[:, :1] * w.log_sd_between)
        seconds = medians_s * np.exp(normals[:, 1:] * w.log_sd_within)
        if w.unresolved_share + w.no_work_share == 0.0:
            return [Drawn(row, self._all, self._all) for row in np.minimum(seconds, HOUR_S * w.cap_h).tolist()]
        fates = uniform[num_uniform + 1].reshape(count, size + 1)[:, 1:]
        return list(map(self._with_fates, seconds.tolist(), fates.tolist()))

    def _normals(self, num: int, angles: Floats, rests: Floats) -> Floats:
        """One left over from before, if there is, and two of each pair; a last one too many is kept for later."""
        radii = np.sqrt(-2.0 * np.log(1.0 - rests))
        normals = np.stack([np.cos(angles) * radii, np.sin(angles) * radii], axis=1).ravel()
        if self._spare is not None:
            normals, self._spare = np.concatenate([[self._spare], normals]), None
        if len(normals) > num:
            self._spare = float(normals[num])
        return normals[:num]

    def _with_fates(self, seconds: list[float], fates: list[float]) -> Drawn:
        w = self.workload
        cap_s, no_work = HOUR_S * w.cap_h, w.unresolved_share + w.no_work_share
        return Drawn(
            [
                min(takes_s * NO_WORK_TIME if w.unresolved_share <= fate < no_work else takes_s, cap_s)
                for takes_s, fate in zip(seconds, fates, strict=True)
            ],
            [fate >= w.unresolved_share for fate in fates],
            [fate >= no_work for fate in fates],
        )


def _continued(random: Random) -> np.random.RandomState:
    """Goes on where `random` stands: the same Mersenne Twister, the same 53 bits of two words for a number."""
    _, words, _ = random.getstate()
    continued = np.random.RandomState(0)
    continued.set_state(("MT19937", np.array(words[:-1], dtype=np.uint32), words[-1], 0, 0.0))
    return continued
