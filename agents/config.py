"""The one schema of run settings: it serves the launch form, the API, presets and validation.

Names are law. A value that does not fit is refused with the field, the value and what is allowed.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from agents.core.bounds import decimal
from agents.harness.drivers import DRIVERS, HARNESSES
from agents.harness.install.recipe import VERSION_PATTERN

CONFIG_VERSION = 1
PRESET_DIR = Path(__file__).parent / "presets"

#: A hundred years, which calendars hold.
MAX_DAYS = 36_525
#: What a column of 64 bits holds.
MAX_SEED = 2**63 - 1
#: Largest other number, and longest text.
MAX_NUMBER = 10**9
MAX_TEXT = 4_096

PolicyKind = Literal["elastic", "elastic+", "colocate", "async-barrier", "async-streamed", "async-best"]
Role = Literal["main", "main-summary", "sub-agent", "sub-agent-summary"]


class BadConfig(ValueError):
    """Run settings that cannot be used. `problems` maps each field to what is wrong and what is allowed."""

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{name}: {why}" for name, why in problems.items()))


class RunConfig(BaseModel):
    """Complete settings of one run, with the cluster defaults.

    A description says meaning and unit; the allowed range stands in the constraints (`allowed`) and is shown beside it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    task_set: str = Field("quickstart", description="Name of an imported task set, or the path of one.")
    policy_path: str = Field(
        "", description="Hugging Face folder of the first weights; empty: the bundled tiny policy."
    )
    harness: Literal[HARNESSES] = Field("reference", description="The black box that does the task.")
    harness_version: str = Field(
        "",
        pattern=VERSION_PATTERN,
        description="Exact version of the harness, as in 2.1.220; empty: the one that Gyre was tested with.",
    )
    launcher: Literal["local"] = Field("local", description="Backend that starts cell agents.")

    policy_kind: PolicyKind = Field("elastic", description="Scheduling policy.")
    cells: int = Field(8, ge=1, le=64, description="K: cells of the run.")
    training_cells: int = Field(0, ge=0, description="Fixed split of the async policies; 0: half of the cells.")
    concurrency_per_cell: int = Field(192, ge=1, description="c: executions a cell in rollout can hold.")
    max_calls_per_cell: int = Field(384, ge=1, description="Calls beyond it wait in the proxy.")
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
    j_max: int = Field(5, ge=1, description="Most trajectories drawn per execution.")
    role_order: tuple[Role, ...] = Field(
        ("main", "main-summary", "sub-agent", "sub-agent-summary"), description="Highest priority first."
    )
    context_tokens: int = Field(262_144, ge=16, description="Training context; longer leaves are not selectable.")
    policy_context_tokens: int = Field(
        0, ge=0, description="Longest prompt + reply the policy takes; 0: context_tokens."
    )
    tokens_per_micro_step: int = Field(
        262_144, ge=16, description="Most tokens packed into one micro-step; at least context_tokens."
    )
    kv_on_update: Literal["recompute"] = Field(
        "recompute", description="Cached keys and values when weights change: they are recomputed."
    )
    packing: Literal["per_trajectory"] = Field(
        "per_trajectory", description="How micro-steps are filled: whole trajectories side by side."
    )
    temperature: float = Field(
        1.0, gt=0, description="Sampling temperature of training executions; evaluation is greedy."
    )
    top_p: Literal[1.0] = Field(1.0, description="The loss assumes 1.")
    max_new_tokens: int = Field(32_768, ge=1, description="Longest reply of one call, in tokens.")
    advantage: Literal["group_std", "mean_only", "leave_one_out"] = Field(
        "group_std",
        description="group_std: (reward - mean) / standard deviation of its group; mean_only: reward - mean; "
        "leave_one_out: reward - mean of the others.",
    )
    loss: Literal["ppo_clip", "ppo_clip_behaviour", "cispo", "gspo", "reinforce_is"] = Field(
        "ppo_clip",
        description="Policy-gradient loss. ppo_clip takes its ratio to the trainer's log-probabilities and weighs by "
        "importance; ppo_clip_behaviour takes it to the sampler's; gspo has one ratio per call.",
    )
    clip_low: float = Field(
        0.2, gt=0, lt=1, description="Ratios below 1 - clip_low are clipped; cispo and reinforce_is do not use it."
    )
    clip_high: float = Field(
        0.28,
        gt=0,
        description="Ratios above 1 + clip_high are clipped, weights in cispo; reinforce_is does not use it.",
    )
    tis_cap: float = Field(2.0, gt=0, description="Cap of the importance weight of ppo_clip and reinforce_is.")
    learning_rate: float = Field(1e-6, gt=0, description="Of Adam, constant over the run; no weight decay.")
    betas: tuple[float, float] = Field(
        (0.9, 0.95),
        description="Adam's decay rates of the gradient's mean and of its square, each at least 0, below 1.",
    )
    grad_clip: float = Field(
        1.0, gt=0, description="Largest norm of a step's gradient; a larger one is scaled down to it."
    )
    malformed_penalty: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of |reward| taken off for training when a call was malformed or the turn limit was hit.",
    )
    shuffle_rewards: bool = Field(
        False, description="Control run: rewards permuted within each group before advantages."
    )
    harness_timeout_s: float = Field(
        14_400,
        gt=0,
        description="Seconds of the harness; time held by the proxy does not count. A task's own shorter limit wins.",
    )
    overall_timeout_s: float = Field(
        16_200, gt=0, description="Seconds of preparation and harness; time held by the proxy does not count."
    )
    evaluation_timeout_s: float = Field(
        1_800, gt=0, description="Seconds of everything the evaluator runs. A task's own shorter limit wins."
    )
    max_attempts: int = Field(
        5,
        ge=1,
        description="Attempts of an execution that may lose their worker; after so many it is unresolved. An attempt "
        "that a worker gave up in order does not count.",
    )
    min_votes: int = Field(2, ge=1, description="Rewarded executions that make a group usable; with fewer it is void.")
    reward_key: str = Field("reward", description="Key of reward.json that is trained.")
    reward_sentinels: tuple[float, ...] = Field(
        (), description="Values that a verifier writes when it has crashed, such as -1: unresolved, not a reward."
    )
    eval_every_steps: int = Field(
        4,
        ge=0,
        description="Optimizer steps between evaluations; the first and last version are evaluated too. 0: never.",
    )
    eval_tasks: int = Field(
        64,
        ge=0,
        description="Held-out tasks of an evaluation, at most those that the task set holds out. 0: no evaluation.",
    )
    checkpoint_every_steps: Literal[1] = Field(1, description="Every optimizer step leaves a checkpoint.")
    checkpoints_kept: int = Field(3, ge=1, description="Newest checkpoints that stay on disk.")
    retain_bodies: float = Field(14, ge=0, le=MAX_DAYS, description="Days the raw request archive is kept.")
    retain_logs: float = Field(14, ge=0, le=MAX_DAYS, description="Days that harness and evaluator logs are kept.")
    retain_workspaces: float = Field(
        14,
        ge=0,
        le=MAX_DAYS,
        description="Days that the files an execution left are kept for another assessment; 0: not at all.",
    )
    retain_workspace_mb: float = Field(
        1024, gt=0, description="Files of more MB than this are not kept for another assessment."
    )
    seed: int = Field(1, ge=0, description="What every random choice of the run derives from.")

    @field_validator("*", mode="before")
    @classmethod
    def _plain_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Numbers written as text are decimal ASCII: no underscores, no other digits. A yes or no is no number."""
        wanted = cls.model_fields[info.field_name or ""].annotation
        if wanted in (int, float) and (isinstance(value, bool) or (isinstance(value, str) and decimal(value) is None)):
            raise ValueError("it is a number, written with the digits 0 to 9")
        return value

    @field_validator("*")
    @classmethod
    def _within_bounds(cls, value: Any, info: ValidationInfo) -> Any:
        """Numbers that every column and clock holds, text that a database and a file system take."""
        for item in value if isinstance(value, tuple) else (value,):
            most = MAX_SEED if info.field_name == "seed" else MAX_NUMBER
            if isinstance(item, int | float) and abs(item) > most:
                raise ValueError(f"it is at most {most:,}")
            if isinstance(item, str) and (len(item) > MAX_TEXT or not item.isprintable()):
                raise ValueError(f"it is text of at most {MAX_TEXT:,} characters, none of which controls a terminal")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        room, burst = (
            self.cells * self.concurrency_per_cell,
            (self.burst_batches * self.groups_per_batch * self.executions_per_group),
        )
        if self.burst_batches + self.burst_lead > self.max_staleness + 1:
            raise ValueError(
                f"burst_batches + burst_lead is {self.burst_batches + self.burst_lead}, "
                f"at most max_staleness + 1 = {self.max_staleness + 1} keeps the staleness bound"
            )
        if burst > room:
            raise ValueError(
                f"a burst is burst_batches x groups_per_batch x executions_per_group = {burst} executions, "
                f"but cells x concurrency_per_cell hold {room}"
            )
        if self.context_tokens > self.tokens_per_micro_step:
            raise ValueError(
                f"context_tokens {self.context_tokens} exceeds tokens_per_micro_step {self.tokens_per_micro_step}: "
                "a trajectory is never split"
            )
        context, wanted = self.policy_context_tokens or self.context_tokens, DRIVERS[self.harness].min_context_tokens
        if context < wanted:
            raise ValueError(
                f"{self.harness} opens with a long prompt of its own and needs a context of {wanted} tokens at least, "
                f"but policy_context_tokens (or context_tokens, where that is 0) is {context}"
            )
        if self.min_rollout_cells > self.cells:
            raise ValueError(f"min_rollout_cells {self.min_rollout_cells} exceeds cells {self.cells}")
        if self.policy_kind.startswith("async") and self.cells < 2:
            raise ValueError(f"policy_kind {self.policy_kind} splits the cells and needs at least 2")
        if self.policy_kind == "async-best" and not self.training_cells:
            raise ValueError(
                "policy_kind async-best needs training_cells, the best split; `manage.py simulate --policy async-best` "
                "finds it"
            )
        if self.training_cells >= self.cells:
            raise ValueError(f"training_cells {self.training_cells} leaves no cell of {self.cells} for rollout")
        if len(set(self.role_order)) != len(self.role_order):
            raise ValueError("role_order names a role twice")
        return self


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
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise BadConfig(_problems(error)) from error


def readable(stored: Any) -> dict[str, Any]:
    """Every setting of a stored run, whatever was stored: one that is missing or does not fit has its default."""
    wanted = stored if isinstance(stored, dict) else {}
    known = {name: value for name, value in wanted.items() if name in RunConfig.model_fields}
    try:
        return RunConfig.model_validate(known).model_dump(mode="json")
    except ValidationError as error:
        wrong = {item["loc"][0] for item in error.errors() if item["loc"]}
    usual = RunConfig().model_dump(mode="json")
    return usual | {name: value for name, value in known.items() if name not in wrong}


def preset_names() -> list[str]:
    return sorted(p.stem for p in PRESET_DIR.glob("*.toml"))


def preset(name: str, **changes: Any) -> RunConfig:
    """The named preset with `changes` on top. Raises BadConfig for an unknown name or setting."""
    path = PRESET_DIR / f"{name}.toml"
    if name not in preset_names():
        raise BadConfig({"preset": f"{name!r} is unknown; known presets: {', '.join(preset_names())}"})
    return parse({**tomllib.loads(path.read_text()), **changes})


def _problems(error: ValidationError) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in error.errors():
        field = ".".join(str(part) for part in item["loc"]) or "settings"
        if item["type"] == "extra_forbidden":
            found[field] = f"unknown setting; known settings: {', '.join(sorted(RunConfig.model_fields))}"
        else:
            found[field] = (
                f"{item['msg'].removeprefix('Value error, ')} (got {item['input']!r:.80})"
                if field != "settings"
                else item["msg"].removeprefix("Value error, ")
            )
    return found
