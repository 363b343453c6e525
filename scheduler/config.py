"""The settings of a whole run: they serve the launch form, the API, presets and validation.

Names are law. A value that does not fit is refused with the field, the value and what is allowed.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import ConfigDict, Field, model_validator

from agents.config import AgentSettings, Settings
from agents.config import BadConfig as BadConfig
from scheduler.core.policies import REGISTRY
from scheduler.core.settings import misfit
from trainers.config import TrainingSettings

PRESET_DIR = Path(__file__).parent / "presets"
#: Settings that are no more, with the one value they had: runs of earlier versions name them.
RETIRED = {"top_p": 1.0}

if TYPE_CHECKING:  # which policies there are is known at run time only
    PolicyKind = str
else:
    PolicyKind = Literal[tuple(REGISTRY)]


class SchedulingSettings(Settings):
    """Policy, cells, batches, bursts, and when a cell may leave rollout."""

    policy_kind: PolicyKind = Field("elastic", description="Scheduling policy.")
    cells: int = Field(8, ge=1, le=64, description="K: cells of the run.")
    training_cells: int = Field(0, ge=0, description="Fixed split of the async policies; 0: half of the cells.")
    concurrency_per_cell: int = Field(192, ge=1, description="c: executions a cell in rollout can hold.")
    groups_per_batch: int = Field(18, ge=1, description="B: groups that one optimizer step trains on.")
    executions_per_group: int = Field(16, ge=1, description="N: executions of the same task in a group.")
    steps: int = Field(48, ge=1, description="Optimizer steps.")
    burst_batches: int = Field(4, ge=1, description="S: batches dispatched at once.")
    burst_lead: int = Field(
        0, ge=0, description="Batches of a burst that may be unconsumed when the next one is dispatched."
    )
    max_staleness: int = Field(3, ge=0, description="Bound on every trained token, in versions.")
    max_void_groups: int = Field(8, ge=1, description="Void groups in a row before dispatch pauses.")
    rho_min: float = Field(0.5, gt=0, le=1, description="Share of B that must be ready before a cell leaves rollout.")
    supply_hold_s: float = Field(20, ge=0, description="Seconds the supply check must hold.")
    min_rollout_cells: int = Field(1, ge=0, description="Cells that stay in rollout while executions are owed.")

    @model_validator(mode="after")
    def _bursts_and_cells_fit(self) -> Self:
        if problem := misfit(self):
            raise ValueError(problem)
        if self.policy_kind.startswith("async") and self.cells < 2:
            raise ValueError(f"policy_kind {self.policy_kind} splits the cells and needs at least 2")
        if self.policy_kind == "async-best" and not self.training_cells:
            raise ValueError(
                "policy_kind async-best needs training_cells, the best split; `manage.py simulate --policy async-best` "
                "finds it"
            )
        return self


class RunConfig(AgentSettings, TrainingSettings, SchedulingSettings):
    """Complete settings of one run."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_retired(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if name not in RETIRED or value != RETIRED[name]}


def allowed(name: str) -> str:
    """The range of a number in words, as in "at least 1 and at most 64"; empty for what is no number."""
    bounds = {type(bound): bound for bound in RunConfig.model_fields[name].metadata}
    low, above, high, below = bounds.get(Ge), bounds.get(Gt), bounds.get(Le), bounds.get(Lt)
    words = f"at least {low.ge}" if low else f"more than {above.gt}" if above else ""
    if high:
        words += f" and at most {high.le}" if words else f"at most {high.le}"
    elif below:
        words += f" and less than {below.lt}" if words else f"less than {below.lt}"
    return words


def parse(values: dict[str, Any]) -> RunConfig:
    """Validate settings. Raises BadConfig with every field that is wrong."""
    return RunConfig.parse(values)


def preset_names() -> list[str]:
    return sorted(p.stem for p in PRESET_DIR.glob("*.toml"))


def preset(name: str, /, **changes: Any) -> RunConfig:
    """The named preset with `changes` on top. Raises BadConfig for an unknown name or setting."""
    path = PRESET_DIR / f"{name}.toml"
    if name not in preset_names():
        raise BadConfig({"preset": f"{name!r} is unknown; known presets: {', '.join(preset_names())}"})
    return RunConfig.parse({**tomllib.loads(path.read_text()), **changes})
