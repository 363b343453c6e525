"""The launch form, made from the RunConfig schema: one field per setting, grouped, with what it allows."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from scheduler import config as run_config
from scheduler.config import RunConfig

SECTIONS: list[tuple[str, list[str]]] = [
    ("Task and agent", ["task_set", "policy_path", "harness", "harness_version", "seed"]),
    (
        "Size",
        [
            *("cells", "concurrency_per_cell", "max_calls_per_cell"),
            *("groups_per_batch", "executions_per_group", "steps"),
        ],
    ),
    (
        "Scheduling",
        [
            *("policy_kind", "training_cells", "burst_batches", "burst_lead", "max_staleness", "rho_min"),
            *("supply_hold_s", "min_rollout_cells", "max_void_groups", "launcher"),
        ],
    ),
    (
        "Sampling",
        [
            *("temperature", "max_new_tokens"),
            *("context_tokens", "policy_context_tokens", "kv_on_update"),
        ],
    ),
    (
        "Selection and reward",
        [
            *("j_max", "role_order", "advantage", "malformed_penalty"),
            *("min_votes", "max_attempts", "reward_key", "reward_sentinels", "shuffle_rewards"),
        ],
    ),
    (
        "Training",
        [
            *("loss", "clip_low", "clip_high", "tis_cap", "learning_rate", "betas"),
            *("grad_clip", "tokens_per_micro_step", "packing"),
        ],
    ),
    ("Time limits", ["harness_timeout_s", "overall_timeout_s", "evaluation_timeout_s"]),
    (
        "Evaluation and keeping",
        [
            *("eval_every_steps", "eval_tasks", "checkpoint_every_steps", "checkpoints_kept"),
            *("retain_bodies", "retain_logs", "retain_workspaces", "retain_workspace_mb"),
        ],
    ),
]


@dataclass(frozen=True)
class FormField:
    """One setting as an input. `kind`: number, text, choice or flag."""

    name: str
    kind: str
    value: str
    help: str
    choices: tuple[str, ...] = ()
    minimum: str = ""
    maximum: str = ""
    step: str = "any"
    allowed: str = ""
    problem: str = ""
    changed: bool = False


def sections(
    values: dict[str, Any], usual: dict[str, Any], problems: dict[str, str]
) -> list[tuple[str, list[FormField]]]:
    """Fields with `values`; a field that differs from `usual` (the preset) is marked."""
    known = {name for _, names in SECTIONS for name in names}
    rest = [name for name in RunConfig.model_fields if name not in known]
    grouped = [*SECTIONS, ("More", rest)] if rest else SECTIONS
    return [(title, [_field(name, values, usual, problems) for name in names]) for title, names in grouped]


def _field(name: str, values: dict[str, Any], usual: dict[str, Any], problems: dict[str, str]) -> FormField:
    info = RunConfig.model_fields[name]
    value = as_text(values.get(name))
    problem = problems.get(name) or next((why for key, why in problems.items() if key.startswith(f"{name}.")), "")
    common: dict[str, Any] = {
        "name": name, "value": value, "help": info.description or "", "problem": problem,
        "changed": value != as_text(usual.get(name)), "allowed": run_config.allowed(name),
    }  # fmt: skip
    if info.annotation is bool:
        return FormField(kind="flag", **common)
    if typing.get_origin(info.annotation) is Literal:
        return FormField(kind="choice", choices=tuple(as_text(a) for a in typing.get_args(info.annotation)), **common)
    if info.annotation in (int, float):
        bounds = {type(m): m for m in info.metadata}
        low, high = bounds.get(Ge) or bounds.get(Gt), bounds.get(Le) or bounds.get(Lt)
        return FormField(
            kind="number",
            minimum=str(low.ge if isinstance(low, Ge) else low.gt) if isinstance(low, Ge | Gt) else "",
            maximum=str(high.le if isinstance(high, Le) else high.lt) if isinstance(high, Le | Lt) else "",
            step="1" if info.annotation is int else "any",
            **common,
        )
    return FormField(kind="text", **common)


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(as_text(part) for part in value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return "" if value is None else str(value)


def usual_values(preset: str) -> dict[str, Any]:
    """Settings of the preset, or the cluster defaults for an empty name. Raises BadConfig for an unknown one."""
    found = run_config.preset(preset) if preset else RunConfig.model_construct()
    return found.model_dump(mode="json")


def typed(data: typing.Mapping[str, Any]) -> dict[str, Any]:
    """Posted text as values. What does not parse stays text, so that validation says what is wrong with it."""
    values: dict[str, Any] = {}
    for name, info in RunConfig.model_fields.items():
        if info.annotation is bool:
            values[name] = data.get(name) == "true"
        elif name in data:
            values[name] = _typed(str(data[name]).strip(), info.annotation)
    return values


def _typed(text: str, annotation: Any) -> Any:
    origin = typing.get_origin(annotation)
    if origin is tuple:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return [_typed(part, typing.get_args(annotation)[0]) for part in parts]
    if origin is Literal:
        return next((choice for choice in typing.get_args(annotation) if as_text(choice) == text), text)
    if annotation in (int, float):
        try:
            return annotation(text)
        except ValueError:
            return text
    if isinstance(annotation, types.UnionType):
        return text or None
    return text


def changes_to(usual: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Only what differs from the preset: that is what a launch names."""
    return {name: value for name, value in values.items() if as_text(value) != as_text(usual.get(name))}


def plan_sentence(values: dict[str, Any]) -> str:
    """What the run will do, in numbers. Empty when the settings do not allow to say."""
    try:
        c = run_config.parse(values)
    except run_config.BadConfig:
        return ""
    total = c.steps * c.groups_per_batch * c.executions_per_group
    burst = c.burst_batches * c.groups_per_batch * c.executions_per_group
    room = c.cells * c.concurrency_per_cell
    num_evaluations = len(evaluated_versions(c))
    tasks = "task" if c.eval_tasks == 1 else "tasks"
    return (
        f"{c.steps} steps of {c.groups_per_batch} groups × {c.executions_per_group} executions: {total:,} executions. "
        f"A burst is {burst:,}, the {c.cells} cells hold {room:,}. "
        + (
            f"It is evaluated {num_evaluations} times on {c.eval_tasks} held-out {tasks}."
            if num_evaluations
            else "No evaluation."
        )
    )


def evaluated_versions(config: RunConfig) -> list[int]:
    """Version 0, every `eval_every_steps`-th and the last (docs/algorithms.md §9)."""
    if not config.eval_every_steps or not config.eval_tasks:
        return []
    return sorted({*range(0, config.steps + 1, config.eval_every_steps), config.steps})
