"""What the scheduler's leader does now and then beside deciding, whether or not a run is active.

Whoever has such work registers it when the app is ready, so that the loop needs to know nobody by name.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler import wakes

RETENTION_EVERY_S = 600.0


@dataclass(frozen=True)
class Chore:
    """`do` is called by the leader every `every_s` seconds; it must be quick, and safe to do twice."""

    name: str
    every_s: float
    do: Callable[[], None]


#: By name: registering again replaces.
CHORES: dict[str, Chore] = {}


def register(chore: Chore) -> None:
    CHORES[chore.name] = chore


register(Chore("retention", RETENTION_EVERY_S, lambda: wakes.wake(wakes.ENFORCE_RETENTION)))
