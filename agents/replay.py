"""Draw the trajectories of an admitted execution again, from its recorded calls (algorithms.md §7)."""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.actions.admit_executions import selection_bounds
from agents.core import draws
from agents.core.selection import select
from agents.models import Execution
from agents.recorded import folded


@dataclass(frozen=True)
class DrawValue:
    """A draw without its row. `candidates`: (call, count) in order of call number."""

    number: int
    role: str
    candidates: tuple[tuple[int, int], ...]
    random: float
    chosen_call: int


@dataclass(frozen=True)
class Replayed:
    recorded: tuple[DrawValue, ...]
    replayed: tuple[DrawValue, ...]

    @property
    def agree(self) -> bool:
        return self.recorded == self.replayed


def replay_draws(execution: Execution) -> Replayed:
    """The draws on record, and the same number of draws made again. Both are empty before admission."""
    recorded = tuple(
        DrawValue(
            row.number, row.role, _pairs((c["call"], c["count"]) for c in row.candidates), row.random, row.chosen_call
        )
        for row in execution.draws.filter(attempt=execution.attempt).order_by("number")
    )
    if not recorded:
        return Replayed((), ())
    run, group, tree = execution.run, execution.group, folded(execution)
    seed = draws.selection_seed(run.seed, group.number, execution.index, execution.attempt)
    again = select(tree.tree, tree.facts, selection_bounds(run, len(recorded)), seed)
    return Replayed(
        recorded,
        tuple(
            DrawValue(d.number, d.role, _pairs((c.call, c.count) for c in d.candidates), d.random, d.chosen_call)
            for d in again.draws
        ),
    )


def _pairs(candidates: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(candidates)
