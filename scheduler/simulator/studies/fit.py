"""A scenario fitted to a run's own recording: its settings, its measured durations, and how well they reproduce it.

    scenario = fit_run(run_id)          # raises TooLittle while too little is recorded
    scenario.recorded                   # seconds per execution, a tuple per complete group: replayed in their order
    scenario.fit                        # what was measured, what is assumed, recorded against simulated

Durations come from groups that are complete: those still running are the long ones, so a part of a group would make
everything look faster. Costs that a run does not record keep the simulator's values and are listed as assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log, sqrt
from statistics import fmean, median, pstdev
from typing import Any

from scheduler.core.settings import Settings
from scheduler.simulator.core import Stuck, Workload, simulate
from scheduler.simulator.core.workload import HOUR_S
from scheduler.simulator.scenarios import BadScenario, Scenario
from scheduler.simulator.studies.recorded import Recording, read

#: Least that a recording must hold. A step times the training; below four groups their spread says nothing.
MIN_GROUPS = 4
MIN_STEPS = 1


class TooLittle(BadScenario):
    """The run has not recorded enough yet. The message says what is there and what is needed."""


def fit_run(run_id: int) -> Scenario:
    """The scenario of a run in the database. Raises BadScenario when it does not exist, TooLittle."""
    recording = read(run_id)
    if recording is None:
        raise BadScenario(f"run {run_id} does not exist")
    return fit(recording)


def fit(recording: Recording) -> Scenario:
    """The scenario of a recording, `fit` included. Raises TooLittle."""
    groups = recorded_groups(recording)
    lacking = missing(len(groups), len(recording.steps), recording.measures.work.micro_step_s is not None)
    if lacking:
        raise TooLittle(f"run {recording.run_id} has recorded too little to simulate it: {lacking}")
    settings = Settings.from_config(recording.config)
    workload, assumed = _workload(recording, groups, settings)
    scenario = Scenario(
        name=f"run-{recording.run_id}",
        settings=settings,
        workload=workload,
        description=f"Fitted to run {recording.run_id}, version {recording.version}.",
        recorded=groups,
    )
    return replace(scenario, fit=fit_error(recording, scenario) | {"assumed": assumed})


def missing(num_groups: int, num_steps: int, timed: bool) -> str:
    """What must still be recorded before a simulation says anything; empty when there is enough.

    Complete groups, optimizer steps, and whether any micro-step was timed.
    """
    needs = []
    if num_groups < MIN_GROUPS:
        needs.append(f"{MIN_GROUPS} complete groups are needed, {num_groups} are there")
    if num_steps < MIN_STEPS or not timed:
        needs.append(f"{MIN_STEPS} optimizer step with timed micro-steps is needed, {num_steps} are there")
    return "; ".join(needs)


def recorded_groups(recording: Recording) -> tuple[tuple[float, ...], ...]:
    """Seconds at full load of the executions of each complete group, in the order of dispatch."""
    load = recording.load
    by_group: dict[int, list[float]] = {}
    for execution in recording.executions:
        if execution.group in recording.complete_groups and execution.took_s:
            by_group.setdefault(execution.group, []).append(
                execution.took_s * load.factor.get(execution.id, load.mean_factor)
            )
    return tuple(tuple(by_group[number]) for number in sorted(by_group))


def _workload(
    recording: Recording, groups: tuple[tuple[float, ...], ...], settings: Settings
) -> tuple[Workload, list[str]]:
    measures, config = recording.measures, recording.config
    assumed = ["dp_efficiency", "move_stall_s", "resume_stall_s", "update_stall_s"]
    usual = Workload()
    micro_step_s = measures.work.micro_step_s or 0.0
    steps_per_group = measures.work.micro_steps_per_group or 1.0
    q = trajectories_q(recording.drawn, settings.j_max)
    commits = [step.commit_s for step in recording.steps if step.commit_s is not None]
    changes: dict[str, Any] = _durations(groups) | {
        "environment_share": recording.load.environment_share,
        "alpha": recording.load.alpha,  # 1: durations are replayed as they were, at the loads that they met
        "harness_timeout_s": max(float(config["overall_timeout_s"]), 1.001 * max(max(group) for group in groups)),
        "min_votes": int(config["min_votes"]),
        "evaluation_s": recording.verification_s or 0.0,
        "unresolved_share": _share(recording, lambda row: not row.votes),
        "no_work_share": _share(recording, lambda row: row.votes and not row.works),
        "micro_steps_per_group": max(1, round(steps_per_group)),
        "dp_efficiency": 1.0,  # what cells cost each other is in the measured seconds of a micro-step
        "commit_s": median(commits) if commits else usual.commit_s,
        "to_training_s": _mean(measures.to_training_s, usual.to_training_s),
        "to_rollout_s": _mean(measures.to_rollout_s, usual.to_rollout_s),
        "move_stall_s": 0.0,
        "resume_stall_s": 0.0,
    }
    if q is None:
        assumed.append("trajectories_q")
    else:
        changes["trajectories_q"] = q
    for name, there in (
        ("commit_s", commits),
        ("to_training_s", measures.to_training_s),
        ("to_rollout_s", measures.to_rollout_s),
        ("eval_execution_h", recording.evaluation_s),
        ("eval_log_sd", recording.evaluation_s),
    ):
        if not there:
            assumed.append(name)
    held_out = recording.evaluation_s or groups
    changes["eval_execution_h"] = max(1e-6, fmean(seconds for one in held_out for seconds in one) / HOUR_S)
    if recording.evaluation_s:  # within evaluations: between them the policy changes
        changes["eval_log_sd"] = fmean(pstdev([log(max(1e-3, s)) for s in one]) for one in recording.evaluation_s)
    workload = usual.with_changes(changes)
    per_batch_s = micro_step_s * steps_per_group * settings.groups_per_batch
    train_cell_h = max(1e-9, per_batch_s / workload.training_factor(settings.j_max) / HOUR_S)
    return workload.with_changes({"train_cell_h": train_cell_h}), sorted(assumed)


def _durations(groups: tuple[tuple[float, ...], ...]) -> dict[str, Any]:
    """The log-normal of these durations, for who draws instead of replaying: a variance analysis of their logs."""
    logs = [[log(max(seconds, 1e-3)) for seconds in group] for group in groups]
    means = [fmean(group) for group in logs]
    grand = fmean(value for group in logs for value in group)
    inside = sum((value - mean) ** 2 for group, mean in zip(logs, means, strict=True) for value in group)
    degrees = sum(len(group) - 1 for group in logs)
    within = inside / degrees if degrees else 0.0
    size = fmean(len(group) for group in logs)
    spread = sum((mean - grand) ** 2 for mean in means) / max(1, len(means) - 1)
    longest_s = max(max(group) for group in groups)
    return {
        "execution_h": exp(grand) / HOUR_S,
        "log_sd_between": sqrt(max(0.0, spread - within / size)),
        "log_sd_within": sqrt(within),
        "cap_h": longest_s / HOUR_S,
        "tail_share": 0.0,
    }


def _share(recording: Recording, holds: Any) -> float:
    ended = [row for row in recording.executions if row.finished_s is not None]
    return sum(1 for row in ended if holds(row)) / len(ended) if ended else 0.0


def _mean(by_cell: dict[int, float], usual: float) -> float:
    return fmean(by_cell.values()) if by_cell else usual


def trajectories_q(drawn: Sequence[int], j_max: int) -> float | None:
    """The q whose geometric number of trajectories, cut at `j_max`, has the recorded mean; None when none can."""
    if not drawn or j_max < 2:
        return None
    mean = fmean(drawn)
    low, high = 1e-6, 1.0 - 1e-6
    for _ in range(60):
        middle = (low + high) / 2
        if (1.0 - middle**j_max) / (1.0 - middle) < mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def fit_error(recording: Recording, scenario: Scenario) -> dict[str, Any]:
    """The run's own settings simulated with its own durations, beside what was recorded. Shares are signed.

    `whole`: the run has ended with all its steps. Its hours are then those of the whole run, what comes after the last
    step included, as in the figures of a simulated run; else both are counted up to the last step that is recorded.
    """
    num_steps = len(recording.steps)
    stepped_s, now_s = recording.working_s(recording.steps[-1].stepped_s), recording.working_s(recording.now_s)
    whole = recording.ended and num_steps >= scenario.settings.steps
    first_s = min((row.launched_s for row in recording.executions if row.launched_s is not None), default=0.0)
    groups = recorded_groups(recording)
    took_s = [row.took_s for row in recording.executions if row.group in recording.complete_groups and row.took_s]
    figures: dict[str, Any] = {
        "groups": len(groups),
        "executions": len(took_s),
        "steps": num_steps,
        "whole": whole,
        "first_launch_s": first_s,
        "policy_kind": recording.policy_kind,
        "alpha": recording.load.alpha,
        "alpha_error": recording.load.alpha_error,
        "load_note": recording.load.why,
        "recorded": {"execution_s": fmean(took_s), **_hours(num_steps, stepped_s, now_s if whole else None)},
    }
    try:
        result = simulate(
            scenario.settings, scenario.workload, recording.policy_kind, seed=0, recorded=scenario.recorded
        )
    except Stuck as error:
        return figures | {"stuck": str(error)}
    num_simulated = min(num_steps, len(result.step_rows))
    finished_s = result.step_rows[num_simulated - 1].finished_s
    end_s = result.hours * HOUR_S if whole else None
    simulated = {"execution_s": result.execution_h * HOUR_S, **_hours(num_simulated, finished_s, end_s)}
    compared = {
        name: value for name, value in figures["recorded"].items() if value and not _is_brief(name, value, now_s)
    }
    return figures | {
        "simulated": simulated,
        "error": {name: simulated[name] / compared[name] - 1.0 for name in compared},
    }


def _hours(num_steps: int, stepped_s: float, end_s: float | None) -> dict[str, float]:
    """`hours_per_step` up to `end_s`, and of a whole run its two parts; without an end up to the last step."""
    if end_s is None:
        return {"hours_per_step": stepped_s / num_steps / HOUR_S}
    return {
        "hours_per_step": end_s / num_steps / HOUR_S,
        "hours_to_last_step": stepped_s / HOUR_S,
        "hours_after_last_step": (end_s - stepped_s) / HOUR_S,
    }


def _is_brief(name: str, hours: float, whole_s: float) -> bool:
    """Too short for a share of it to say anything: a run without a last evaluation ends with its last step."""
    return name == "hours_after_last_step" and hours * HOUR_S < 0.01 * whole_s
