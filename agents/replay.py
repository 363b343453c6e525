"""Make the selection of an admitted execution again, from its recorded calls, and compare (docs/algorithms.md §7).

Compared are the draws (class, candidates, counts, random number, choice), the targets of every trajectory, and the
reason of every exclusion, under the bounds on record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agents.actions.admit_executions import selection_bounds
from agents.core import draws
from agents.core.outcome import Outcome
from agents.core.selection import Bounds, Selection, select
from agents.models import Execution, SelectionRecord
from agents.recorded import folded

#: JSON values by name, in the order in which they are compared.
Facts = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """The first value that differs. `where` is a path such as `draws[1].random`; a value that is missing is None."""

    where: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        return f"{self.where}: recorded {self.recorded!r}, replayed {self.replayed!r}"


@dataclass(frozen=True)
class Replayed:
    """Both sides of a replay. `bounds` None: the execution has not been admitted, so there is nothing to replay."""

    execution: int
    attempt: int
    bounds: Bounds | None
    seed: str
    recorded: Facts
    replayed: Facts

    @property
    def difference(self) -> Difference | None:
        return next(differences(self.recorded, self.replayed), None)

    @property
    def agree(self) -> bool:
        return self.difference is None

    @property
    def num_draws(self) -> int:
        return len(self.recorded["draws"])


def replay_draws(execution: Execution) -> Replayed:
    """What is on record of the execution's selection, and the same made again. Both are empty before admission."""
    record = SelectionRecord.objects.filter(execution=execution, attempt=execution.attempt).first()
    recorded = _recorded(execution)
    if record is None and not recorded["draws"]:
        return Replayed(execution.pk, execution.attempt, None, "", _EMPTY, _EMPTY)
    run, group = execution.run, execution.group
    seed = draws.selection_seed(run.seed, group.number, execution.index, execution.attempt)
    if record is None:  # drawn before bounds were kept: the draws alone, as many as there are
        bounds = selection_bounds(run, len(recorded["draws"]))
        again = {**_of(_select(execution, bounds, seed)), "trajectories": [], "exclusions": []}
        recorded = {**recorded, "trajectories": [], "exclusions": []}
        return Replayed(execution.pk, execution.attempt, bounds, seed, recorded, again)
    bounds = Bounds(record.j_max, record.context_tokens, tuple(record.role_order))
    again = {"seed": seed, **_of(_select(execution, bounds, seed))}
    return Replayed(execution.pk, execution.attempt, bounds, seed, {"seed": record.seed, **recorded}, again)


def differences(recorded: Any, replayed: Any, where: str = "") -> Iterator[Difference]:
    """Every place at which two JSON values differ, in reading order."""
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        for name in [*recorded, *(name for name in replayed if name not in recorded)]:
            inner = f"{where}.{name}" if where else str(name)
            yield from differences(recorded.get(name), replayed.get(name), inner)
    elif isinstance(recorded, list) and isinstance(replayed, list):
        for index in range(max(len(recorded), len(replayed))):
            left, right = (side[index] if index < len(side) else None for side in (recorded, replayed))
            yield from differences(left, right, f"{where}[{index}]")
    elif recorded != replayed:
        yield Difference(where, recorded, replayed)


_EMPTY: Facts = {"draws": [], "trajectories": [], "exclusions": []}


def _select(execution: Execution, bounds: Bounds, seed: str) -> Selection:
    if execution.outcome == Outcome.NO_WORK:
        return Selection((), (), {})
    tree = folded(execution)
    return select(tree.tree, tree.facts, bounds, seed)


def _recorded(execution: Execution) -> Facts:
    trajectories = execution.trajectories.filter(attempt=execution.attempt, leaf_call__isnull=False)
    return {
        "draws": [
            {
                "number": row.number,
                "role": row.role,
                "candidates": [[c["call"], c["count"], c["probability"]] for c in row.candidates],
                "random": row.random,
                "chosen_call": row.chosen_call,
            }
            for row in execution.draws.filter(attempt=execution.attempt).order_by("number")
        ],
        "trajectories": [
            {
                "number": row.number,
                "leaf_call": row.leaf_call,
                "role": row.role,
                "num_tokens": row.num_tokens,
                "targets": [list(run) for run in row.targets],
            }
            for row in trajectories.order_by("number")
        ],
        "exclusions": [list(pair) for pair in execution.exclusions],
    }


def _of(selection: Selection) -> Facts:
    return {
        "draws": [
            {
                "number": draw.number,
                "role": str(draw.role),
                "candidates": [[c.call, c.count, c.probability] for c in draw.candidates],
                "random": draw.random,
                "chosen_call": draw.chosen_call,
            }
            for draw in selection.draws
        ],
        "trajectories": [
            {
                "number": trajectory.number,
                "leaf_call": trajectory.call,
                "role": str(trajectory.role),
                "num_tokens": trajectory.num_tokens,
                "targets": [list(run) for run in trajectory.targets],
            }
            for trajectory in selection.trajectories
        ],
        "exclusions": sorted([call, str(reason)] for call, reason in selection.exclusions.items()),
    }
