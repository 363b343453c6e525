"""What a simulated run has to do, and what its cluster costs (docs/algorithms.md §12).

Times of executions are hours at full load of a cell; `Pool` makes them faster when cells are less loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Durations, training work and costs. Names end in their unit; shares are in [0, 1]."""

    execution_h: float = 1.9  # median of an execution at full load, before cap and tail
    log_sd_between: float = 0.22  # of the tasks' medians
    log_sd_within: float = 0.28  # of executions of one task
    tail_share: float = 0.0  # executions whose duration is multiplied by a Pareto draw of at least 1
    tail_exponent: float = 3.0  # of that draw; smaller is heavier
    cap_h: float = 6.0  # duration at full load is clipped here
    harness_timeout_s: float = 14_400.0 * 1.5  # elapsed time, held time excluded: then partial work is evaluated
    evaluation_s: float = 0.0  # verification of an execution, beside the cells
    unresolved_share: float = 0.0  # finish without a reward and do not vote
    no_work_share: float = 0.0  # finish at once after little work, vote, and give no training work
    min_votes: int = 2  # fewer make a group void

    environment_share: float = 0.3  # of an execution's time at full load: tools and tests, which no cell slows
    alpha: float = 0.75  # time per token of an empty cell, relative to full load

    train_cell_h: float = 4.2  # cell-hours of forward and backward passes per full batch, at j_max = 5, one cell
    micro_steps_per_group: int = 16
    dp_efficiency: float = 0.97  # of each cell, per further cell in the same batch
    trajectories_q: float = 0.759  # trajectories per execution are 1 + geometric(q): what j_max cuts
    commit_s: float = 180.0  # optimizer step, checkpoint, publication

    to_training_s: float = 8.52
    to_rollout_s: float = 3.46
    move_stall_s: float = 10.0  # a moved call: re-prefill, or the transfer of its keys and values
    resume_stall_s: float = 180.0  # calls of a cell whose engine had been stopped
    update_stall_s: float = 0.0  # calls of a cell whose weights are renewed

    cell_failures_per_h: float = 0.0  # of one cell
    repair_s: float = 600.0
    eval_execution_h: float = 0.5  # mean of an evaluation execution
    eval_log_sd: float = 0.3  # of executions of one evaluation

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)!r}, {must}"
            for name, fits, must in _RANGES
            if not fits(getattr(self, name))
        ]
        if problems:
            raise ValueError("; ".join(problems))

    def training_factor(self, j_max: int) -> float:
        """Training work with a cap of `j_max` trajectories, relative to a cap of 5 (0 or less: no cap).

        E[min(J, j)] of a geometric J is (1 - q^j) / (1 - q). q = 0.759 gives the published cut of 25.2% at 5.
        """
        uncapped = 1.0 if j_max <= 0 else 1.0 - self.trajectories_q**j_max
        return uncapped / (1.0 - self.trajectories_q**5)

    def slowdown(self, load: float) -> float:
        """Time of an execution relative to full load, when its cell holds `load` of its cap."""
        return self.environment_share + (1.0 - self.environment_share) * (self.alpha + (1.0 - self.alpha) * load)

    @classmethod
    def names(cls) -> frozenset[str]:
        return frozenset(field.name for field in fields(cls))

    def with_changes(self, changes: Mapping[str, Any]) -> Workload:
        """A copy. Raises ValueError for a value out of range."""
        return replace(self, **changes)


MAX_H = 10_000.0
MAX_S = MAX_H * HOUR_S
MAX_LOG_SD = 10.0
#: Failures of one cell per hour: one a second.
MAX_FAILURES_PER_H = 3_600.0
MAX_COUNT = 1_000_000
#: Limits that mean "none" when they are far away.
MAX_CAP_H = 1e6
MAX_TIMEOUT_S = 1e9

Range = tuple[str, Callable[[float], bool], str]


def _above_0(most: float, *names: str) -> Iterator[Range]:
    must = f"must be above 0 and at most {most:,.0f}"
    return ((name, lambda value: 0.0 < value <= most, must) for name in names)


def _from_0(most: float, *names: str) -> Iterator[Range]:
    must = f"must be at least 0 and at most {most:,.0f}"
    return ((name, lambda value: 0.0 <= value <= most, must) for name in names)


def _share(value: float) -> bool:
    return 0.0 <= value <= 1.0


_RANGES: tuple[Range, ...] = (
    *_above_0(MAX_H, "execution_h", "train_cell_h", "eval_execution_h"),
    *_above_0(MAX_CAP_H, "cap_h"),
    *_above_0(MAX_TIMEOUT_S, "harness_timeout_s"),
    *_above_0(MAX_S, "repair_s"),
    *_above_0(MAX_COUNT, "micro_steps_per_group"),
    *_from_0(MAX_LOG_SD, "log_sd_between", "log_sd_within", "eval_log_sd"),
    *_from_0(MAX_S, "evaluation_s", "commit_s", "to_training_s", "to_rollout_s"),
    *_from_0(MAX_S, "move_stall_s", "resume_stall_s", "update_stall_s"),
    *_from_0(MAX_FAILURES_PER_H, "cell_failures_per_h"),
    *_from_0(MAX_COUNT, "min_votes"),
    *(
        (name, _share, "must be in [0, 1]")
        for name in ("tail_share", "unresolved_share", "no_work_share", "environment_share", "alpha")
    ),
    ("dp_efficiency", lambda value: 0.0 < value <= 1.0, "must be in (0, 1]"),
    ("trajectories_q", lambda value: 0.0 < value < 1.0, "must be in (0, 1)"),
    ("tail_exponent", lambda value: 1.0 < value <= MAX_COUNT, f"must be above 1 and at most {MAX_COUNT:,}"),
)


class Draw(NamedTuple):
    """One execution to come."""

    seconds: float  # at full load, clipped
    votes: bool
    works: bool  # gives training work


class Drawn(NamedTuple):
    """The executions of one group, a list for each part of `Draw`."""

    seconds: list[float]
    votes: list[bool]
    works: list[bool]

    def draws(self) -> list[Draw]:
        return list(map(Draw, *self))
