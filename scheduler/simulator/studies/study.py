"""What to simulate: policies x seeds at one or more points of the settings.

    study = Study.of(scenario, ["elastic", "colocate"], seeds=[1, 2, 3], sweep={"rho_min": [0.1, 0.5]})

Every point is a scenario of its own. `elastic` is the reference of every ratio, so a study that does not ask for it
runs it all the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.core.policies import REGISTRY
from scheduler.simulator.scenarios import POLICIES, BadScenario, Scenario, check_policy

REFERENCE = "elastic"
#: Tries every split of the cells and takes the fastest.
BEST_SPLIT = "async-best"


@dataclass(frozen=True)
class Point:
    """One scenario of a study. `changes`: the swept settings that tell it from the other points."""

    number: int
    scenario: Scenario
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """One simulated run. `training_cells` None leaves the scenario's own split."""

    point: int
    policy: str
    seed: int
    training_cells: int | None = None


@dataclass(frozen=True)
class Study:
    """`keep_decisions`: the first seed of every policy keeps its decisions, as rows like live ones."""

    points: tuple[Point, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    keep_decisions: bool = False

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        policies: Sequence[str],
        seeds: Iterable[int],
        sweep: Mapping[str, Sequence[Any]] | None = None,
        *,
        keep_decisions: bool = False,
    ) -> Study:
        """Points are the cross product of `sweep`'s values. Raises BadScenario, also for a point that cannot be."""
        for policy in policies:
            check_policy(policy)
        if not policies:
            raise BadScenario(f"no policy was named; known: {', '.join(POLICIES)}")
        axes = dict(sweep or {})
        combinations = itertools.product(*axes.values())
        changes = [dict(zip(axes, values, strict=True)) for values in combinations]
        points = tuple(Point(number, _at(scenario, change, policies), change) for number, change in enumerate(changes))
        return cls(points, tuple(dict.fromkeys(policies)), _distinct(seeds), keep_decisions)

    @classmethod
    def one_at_a_time(
        cls, scenario: Scenario, policies: Sequence[str], seeds: Iterable[int], values: Mapping[str, Sequence[Any]]
    ) -> tuple[Study, list[str]]:
        """Each setting moved alone, the others as they are; and why some points cannot be simulated.

        Raises BadScenario when none can, and as `of` does.
        """
        whole = cls.of(scenario, policies, seeds)
        points: list[Point] = []
        left_out = []
        for name, value in ((name, value) for name, several in values.items() for value in several):
            try:
                points.append(Point(len(points), _at(scenario, {name: value}, policies), {name: value}))
            except BadScenario as error:
                left_out.append(str(error))
        if not points:
            raise BadScenario(left_out[0])
        return replace(whole, points=tuple(points)), left_out

    @property
    def runs_reference(self) -> bool:
        """True when the reference was not asked for, and runs for the ratios alone."""
        return REFERENCE not in self.policies

    @property
    def all_policies(self) -> tuple[str, ...]:
        return (REFERENCE, *self.policies) if self.runs_reference else self.policies

    def jobs(self) -> Iterator[Job]:
        """Point by point, then seed by seed, so that an interrupted study has whole seeds."""
        for point in self.points:
            splits = range(1, point.scenario.settings.cells)
            for seed in self.seeds:
                for policy in self.all_policies:
                    if policy == BEST_SPLIT:
                        yield from (Job(point.number, policy, seed, split) for split in splits)
                    else:
                        yield Job(point.number, policy, seed)

    @property
    def num_jobs(self) -> int:
        return sum(1 for _ in self.jobs())


def _distinct(seeds: Iterable[int]) -> tuple[int, ...]:
    found = tuple(dict.fromkeys(seeds))
    if not found:
        raise BadScenario("no seed was named")
    return found


def _at(scenario: Scenario, change: Mapping[str, Any], policies: Sequence[str]) -> Scenario:
    try:
        changed = scenario.changed(change)
        _check_splits(changed, policies)
        return changed
    except BadScenario as error:
        where = ", ".join(f"{name}={value}" for name, value in change.items())
        raise BadScenario(f"at {where}: {error}" if where else str(error)) from error


def _check_splits(scenario: Scenario, policies: Sequence[str]) -> None:
    """Raises BadScenario where a policy that splits the cells has none to split."""
    split = [policy for policy in policies if REGISTRY[policy].fixed_split]
    if split and scenario.settings.cells < 2:
        needs = "needs" if len(split) == 1 else "need"
        raise BadScenario(
            f"{', '.join(split)} {needs} at least two cells, one for rollout and one for training, and cells is "
            f"{scenario.settings.cells}; name others with --policy"
        )
