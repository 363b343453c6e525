"""What a simulated run came to, in the terms of the published comparison, with the bounds no schedule can beat."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Bounds:
    """Hours per step that no schedule beats. `work_h`: all work, on K cells at full load. `chain_h`: the longest
    chain of executions that had to wait for one another, each launched at the version at which it was.
    """

    work_h: float
    chain_h: float

    @property
    def hours(self) -> float:
        return max(self.work_h, self.chain_h)


@dataclass(frozen=True, slots=True)
class Step:
    """One optimizer step."""

    number: int
    finished_s: float
    num_groups: int
    mean_staleness: float  # by the version at each execution's launch


@dataclass(slots=True)
class Result:
    """Times in hours unless the name says otherwise; staleness is by the version at an execution's launch."""

    policy: str
    seed: int
    hours: float
    steps: int
    cells: int
    utilisation: dict[str, float]  # share of K x hours: see `Tally.result`
    execution_h: float
    query_h: float
    query_ge_4h: float
    timeout_share: float
    mean_staleness: float
    mean_token_staleness: float  # by the version that sampled each token
    staleness: dict[int, float]  # share of trained executions by staleness
    max_staleness: int
    switches: dict[str, int]
    groups: dict[str, int]  # consumed, void, unused
    executions: int
    events: int
    evaluations: int  # of `decide`
    bounds: Bounds
    step_rows: list[Step] = field(default_factory=list)
    waterlevel: list[tuple[float, int]] = field(default_factory=list)  # (second, W), at every change worth a point
    lanes: list[list[tuple[float, str]]] = field(default_factory=list)  # per cell: (second, role from then on)
    decisions: list[dict[str, Any]] = field(default_factory=list)  # when recorded: rows like the live ones

    @property
    def hours_per_step(self) -> float:
        return self.hours / self.steps

    @property
    def cell_hours(self) -> float:
        return self.hours * self.cells

    def to_json(self, *, series: bool = False) -> dict[str, Any]:
        """One flat object; the series only on request."""
        data = asdict(self)
        bounds = data.pop("bounds")
        rows = {name: data.pop(name) for name in ("step_rows", "waterlevel", "lanes", "decisions")}
        data |= {
            "hours_per_step": self.hours_per_step,
            "cell_hours": self.cell_hours,
            "E_d": data.pop("mean_staleness"),
            "E_d_token": data.pop("mean_token_staleness"),
            "staleness": {str(d): share for d, share in self.staleness.items()},
            "bound_h_per_step": self.bounds.work_h,
            "chain_bound_h_per_step": bounds["chain_h"],
        }
        return data | rows if series else data
