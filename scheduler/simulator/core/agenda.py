"""Simulated time: what is due when, and whether `decide` must be asked before any of it happens."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from scheduler.simulator.core.pool import INFINITE

Event = tuple[float, int, Callable[..., None], tuple[object, ...]]
#: The least time until `decide` is asked again: rounding may leave a wait that is over short by the last digit.
TICK_S = 1e-6


class Agenda:
    """Events on a heap, in the order of their time and then of their entry. `now_s` counts from the run's start."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self.heap: list[Event] = []
        self.num_events = 0  # that have happened
        self.must_decide = True  # something that `decide` reads has changed
        self._num_entered = 0
        self._asks_again_s = INFINITE

    def at(self, delay_s: float, action: Callable[..., None], *arguments: object) -> None:
        self._num_entered += 1
        heappush(self.heap, (self.now_s + delay_s, self._num_entered, action, arguments))

    def happen(self) -> None:
        """Let time pass until the next event, and do it."""
        self.now_s, _, action, arguments = heappop(self.heap)
        self.num_events += 1
        action(*arguments)

    def ask(self) -> None:
        self.must_decide = True

    def ask_again(self, at_s: float) -> None:
        """Ask at this time, unless an earlier one is planned; infinite: time alone changes nothing."""
        at_s = max(at_s, self.now_s + TICK_S)
        if at_s < INFINITE and not (self.now_s < self._asks_again_s <= at_s + TICK_S):
            self._asks_again_s = at_s
            self.at(at_s - self.now_s, self.ask)

    @property
    def awaits_moment(self) -> bool:
        """A refusal said when to ask again, and that is still to come; what it waits for may come a little sooner."""
        return self.now_s <= self._asks_again_s < INFINITE
