"""Run settings that calls and executions read, and what the settings of every package have in common.

A run's settings are one flat list of names; it is stored and launched as a whole (`scheduler.config`). Each package has
the class of those that it reads, and takes them out of the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from agents.core.bounds import decimal
from agents.harness.drivers import DRIVERS, HARNESSES
from agents.harness.install.recipe import VERSION_PATTERN

CONFIG_VERSION = 1

#: A hundred years, which calendars hold.
MAX_DAYS = 36_525
#: What a column of 64 bits holds.
MAX_SEED = 2**63 - 1
#: Largest other number, and longest text.
MAX_NUMBER = 10**9
MAX_TEXT = 4_096

Role = Literal["main", "main-summary", "sub-agent", "sub-agent-summary"]
if TYPE_CHECKING:  # which harnesses there are is known at run time only
    HarnessName = str
else:
    HarnessName = Literal[HARNESSES]


class BadConfig(ValueError):
    """Run settings that cannot be used. `problems` maps each field to what is wrong and what is allowed."""

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{name}: {why}" for name, why in problems.items()))


class Settings(BaseModel):
    """Some settings of a run, with the cluster defaults. Those of other packages are passed over.

    A description says meaning and unit; the allowed range stands in the constraints and is shown beside it.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """Validate settings. Raises BadConfig with every field that is wrong."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise BadConfig(cls._problems(error)) from error

    @classmethod
    def readable(cls, stored: Any) -> dict[str, Any]:
        """Every setting of a stored run, whatever was stored: one that is missing or does not fit has its default."""
        wanted = stored if isinstance(stored, dict) else {}
        known = {name: value for name, value in wanted.items() if name in cls.model_fields}
        try:
            return cls.model_validate(known).model_dump(mode="json")
        except ValidationError as error:
            wrong = {item["loc"][0] for item in error.errors() if item["loc"]}
        usual = cls().model_dump(mode="json")
        return usual | {name: value for name, value in known.items() if name not in wrong}

    @classmethod
    def _problems(cls, error: ValidationError) -> dict[str, str]:
        found: dict[str, str] = {}
        for item in error.errors():
            field = ".".join(str(part) for part in item["loc"]) or "settings"
            why = item["msg"].removeprefix("Value error, ")
            if item["type"] == "extra_forbidden":
                found[field] = f"unknown setting; known settings: {', '.join(sorted(cls.model_fields))}"
            else:
                found[field] = why if field == "settings" else f"{why} (got {item['input']!r:.80})"
        return found

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


class PolicySettings(Settings):
    """What proxy and cells share: the policy, how it samples, and how long its contexts are."""

    policy_path: str = Field(
        "", description="Hugging Face folder of the first weights; empty: the bundled tiny policy."
    )
    temperature: float = Field(
        1.0, gt=0, description="Sampling temperature of training executions; evaluation is greedy."
    )
    max_new_tokens: int = Field(32_768, ge=1, description="Longest reply of one call, in tokens.")
    context_tokens: int = Field(262_144, ge=16, description="Training context; longer leaves are not selectable.")
    policy_context_tokens: int = Field(
        0, ge=0, description="Longest prompt + reply the policy takes; 0: context_tokens."
    )
    max_calls_per_cell: int = Field(384, ge=1, description="Calls beyond it wait in the proxy.")


class AgentSettings(PolicySettings):
    """Tasks and harness, limits, verdicts and rewards, selection, and what is kept."""

    task_set: str = Field("quickstart", description="Name of an imported task set, or the path of one.")
    harness: HarnessName = Field("reference", description="The black box that does the task.")
    harness_version: str = Field(
        "",
        pattern=VERSION_PATTERN,
        description="Exact version of the harness, as in 2.1.220; empty: the one that Gyre was tested with.",
    )
    j_max: int = Field(5, ge=1, description="Most trajectories drawn per execution.")
    role_order: tuple[Role, ...] = Field(
        ("main", "main-summary", "sub-agent", "sub-agent-summary"), description="Highest priority first."
    )
    advantage: Literal["group_std", "mean_only", "leave_one_out"] = Field(
        "group_std",
        description="group_std: (reward - mean) / standard deviation of its group; mean_only: reward - mean; "
        "leave_one_out: reward - mean of the others.",
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

    @model_validator(mode="after")
    def _roles_differ_and_harness_has_room(self) -> Self:
        context, wanted = self.policy_context_tokens or self.context_tokens, DRIVERS[self.harness].min_context_tokens
        if context < wanted:
            raise ValueError(
                f"{self.harness} opens with a long prompt of its own and needs a context of {wanted} tokens at least, "
                f"but policy_context_tokens (or context_tokens, where that is 0) is {context}"
            )
        if len(set(self.role_order)) != len(self.role_order):
            raise ValueError("role_order names a role twice")
        return self
