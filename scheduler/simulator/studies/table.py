"""A study as text: one table per point, what every ratio is measured against, and a legend."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scheduler.simulator.scenarios import Scenario
from scheduler.simulator.studies.definitions import LEGEND, definition
from scheduler.simulator.studies.study import REFERENCE
from scheduler.simulator.studies.summary import Interval, PolicySummary, Summary

WIDTH_OF_FILES = 132
WIDTH_OF_TABLE = 124
FITTED = {
    "execution_s": "mean execution",
    "hours_per_step": "per step",
    "hours_to_last_step": "up to the last step",
    "hours_after_last_step": "after the last step (last evaluation)",
}
#: Runs that are all shorter are told in minutes.
SHORT_H = 2.0
#: Settings that every reader asks for first, with the sign they have in the design.
HEAD_SETTINGS = (
    ("cells", "K"), ("concurrency_per_cell", "c"), ("groups_per_batch", "B"), ("executions_per_group", "N"),
    ("burst_batches", "S"), ("burst_lead", "lead"), ("rho_min", "rho_min"), ("j_max", "J_max"), ("steps", "steps"),
)  # fmt: skip


def console_of(stream: TextIO | None = None) -> Console:
    """As wide as the terminal; wide enough for every column when the output is a file or a pipe."""
    stream = stream or sys.stdout
    return Console(file=stream, highlight=False, width=None if stream.isatty() else WIDTH_OF_FILES)


def print_scenario(console: Console, scenario: Scenario, changes: Mapping[str, Any], swept: Iterable[str] = ()) -> None:
    """`swept` settings have another value at every point."""
    settings = scenario.settings
    facts = ", ".join(
        f"{sign} {'swept' if name in swept else format(getattr(settings, name), 'g')}" for name, sign in HEAD_SETTINGS
    )
    console.print(Text(scenario.name, style="bold"), Text(f"  {facts}"))
    if scenario.description:
        console.print(Text(scenario.description, style="dim"))
    if scenario.published:
        facts = ", ".join(f"{name} {value}" for name, value in scenario.published.items())
        console.print(Text(f"published of it: {facts}", style="dim"))
    if changes:
        console.print(Text("set: " + ", ".join(f"{name}={value:g}" for name, value in changes.items())))
    if scenario.recorded:
        count = sum(len(group) for group in scenario.recorded)
        console.print(Text(f"durations: {count} recorded executions of {len(scenario.recorded)} groups, replayed"))


def print_summary(console: Console, summary: Summary, *, gpus_per_cell: int = 0) -> None:
    """The table of one point."""
    point = summary.point
    if point.changes:
        changes = ", ".join(f"{name} = {value:g}" for name, value in point.changes.items())
        console.print(Text(f"\n{changes}", style="bold"))
    if any(policy.results for policy in summary.policies):
        console.print(_table(summary, gpus_per_cell, wide=console.width >= WIDTH_OF_TABLE))
    for policy in summary.policies:
        for error in policy.errors:
            console.print(Padding(Text(f"{policy.policy} did not finish, {error}", style="red"), (0, 0, 0, 1)))
    for note in _notes(summary):
        console.print(Padding(Text(note), (0, 0, 0, 1)))


def _table(summary: Summary, gpus_per_cell: int, *, wide: bool) -> Table:
    """A row per policy; on a narrow terminal a column per policy."""
    shown = [policy for policy in summary.policies if policy.results]
    short = max(policy.hours for policy in shown) < SHORT_H
    unit, took = ("min", "minutes") if short else ("h", "hours")
    paid = f"GPU-{unit}" if gpus_per_cell else f"cell-{unit}"
    shares = ("rollout", "full", "training", "busy")
    names = (took, f"{unit}/step", "ratio", paid, "E(d)", *shares, "moves", "bound", "over")
    lines: list[Sequence[str]] = [("policy", *names)]
    lines += [_row(policy, gpus_per_cell or 1, 60.0 if short else 1.0) for policy in shown]
    head, *rows = lines if wide else zip(*lines, strict=True)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left", no_wrap=not place, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _row(policy: PolicySummary, per_cell: int, per_hour: float) -> list[str]:
    """`per_hour`: units of time in an hour."""
    used = policy.utilisation
    interval = policy.hours_interval
    if interval is not None:
        interval = interval[0] * per_hour, interval[1] * per_hour
    ratio = "-" if policy.ratio is None else f"{policy.ratio:.3f}"
    return [
        policy.policy,
        f"{policy.hours * per_hour:.2f}{_half(interval, 1)}",
        f"{policy.hours_per_step * per_hour:.3f}",
        ratio if policy.policy == REFERENCE else f"{ratio}{_half(policy.ratio_interval, 2)}",
        f"{policy.median('cell_hours') * per_cell * per_hour:,.0f}",
        f"{policy.mean('mean_staleness'):.2f}",
        f"{used['rollout']:.0%}",
        f"{used['rollout_load'] / used['rollout']:.0%}" if used["rollout"] else "-",
        f"{used['training']:.0%}",
        f"{used['training_busy']:.0%}",
        f"{policy.switches:.0f}",
        f"{policy.bound_h_per_step * per_hour:.3f}",
        f"{policy.hours_per_step / policy.bound_h_per_step - 1.0:+.0%}",
    ]


def _long(hours: float) -> str:
    if hours >= 0.1:
        return f"{hours:.2f} h"
    return f"{hours * 60:.1f} min" if hours * 60 >= 1 else f"{hours * 3600:.1f} s"


def _half(interval: Interval | None, digits: int) -> str:
    """Half the width of an interval, as read beside its middle."""
    return f" ± {(interval[1] - interval[0]) / 2:.{digits}f}" if interval else ""


def _notes(summary: Summary) -> Iterator[str]:
    first = summary.first
    if first is not None:
        yield (
            f"{first.policy}: execution {_long(first.mean('execution_h'))}, query {_long(first.mean('query_h'))}, "
            f"{first.mean('query_ge_4h'):.1%} of queries >= 4 h, {first.mean('timeout_share'):.1%} timeouts; "
            f"longest chain of executions {_long(first.chain_h_per_step)} per step"
        )
    for policy in summary.policies:
        if policy.split is not None:
            cells = summary.point.scenario.settings.cells
            split = f"{policy.split} training, {cells - policy.split} rollout"
            yield f"{policy.policy}: the fastest of {cells - 1} splits is {split}"
    if not summary.asked_reference:
        took = _long(summary.reference.hours) if summary.reference else "no result"
        yield f"{REFERENCE} was not asked for; it ran as the reference of the ratios only: {took}"
    if not summary.is_complete:
        yield f"incomplete: seeds {', '.join(map(str, summary.seeds)) or 'none'} so far"


def print_legend(console: Console, policies: tuple[str, ...], num_seeds: int) -> None:
    """The definition of every policy beside whose ratio it stands, and of every figure."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for policy in dict.fromkeys((REFERENCE, *policies)):
        table.add_row(policy, definition(policy))
    table.add_row("", "")
    for name, meaning in LEGEND:
        table.add_row(name, meaning)
    if num_seeds < 2:
        table.add_row("", "one seed gives no interval: --seeds 3")
    console.print()
    console.print(table)


def fit_lines(scenario: Scenario) -> Iterator[str]:
    """How well a scenario that was fitted to a live run reproduces it."""
    fit = scenario.fit
    yield (
        f"{scenario.name}: fitted to {fit['groups']} groups, {fit['executions']} executions and {fit['steps']} steps "
        f"under {fit['policy_kind']}"
    )
    for name, recorded in fit["recorded"].items():
        simulated, error = fit.get("simulated", {}).get(name), fit.get("error", {}).get(name)
        per_hour = 1.0 / 3600.0 if name.endswith("_s") else 1.0
        beside = "" if simulated is None else f", simulated {_long(simulated * per_hour)}"
        beside += "" if error is None else f" ({error:+.1%})"
        span = "the whole run by its steps" if fit.get("whole") else "up to the last recorded step"
        counted = f", {span}" if name == "hours_per_step" else ""
        yield f"  {FITTED[name]}: recorded {_long(recorded * per_hour)}{beside}{counted}"
    w = scenario.workload
    training = f"{_long(w.train_cell_h)} of training per batch on one cell"
    pieces = f"micro-steps per group {w.micro_steps_per_group}"
    switches = f"switches {w.to_training_s:.3g} s and {w.to_rollout_s:.3g} s"
    spread = f"log-sd {w.log_sd_between:.2f} between tasks and {w.log_sd_within:.2f} within"
    median, verification = _long(w.execution_h), f"verification {w.evaluation_s:.3g} s"
    yield f"  measured: {training}, {pieces}, commit {w.commit_s:.3g} s, {switches}"
    yield f"  measured: executions of {median} in the median, {spread}, {verification}"
    if "stuck" in fit:
        yield f"  the simulation of it could not go on: {fit['stuck']}"
    yield f"  {_load_line(fit)}"
    if fit.get("assumed"):
        yield f"  not measured by the run, so assumed: {', '.join(fit['assumed'])}"


def _load_line(fit: Mapping[str, Any]) -> str:
    load = f"{fit['mean_load']:.0%}"
    if fit.get("converted_to_full_load"):
        return f"durations were recorded at a mean load of {load} and are converted to full load as set"
    if fit.get("alpha", 1.0) < 1.0:
        return (
            f"durations were recorded at a mean load of {load} and are converted to full load: alpha is "
            f"{fit['alpha']:.3f} ± {fit['alpha_error']:.3f} by the run's own calls"
        )
    why = f" ({fit['load_note']})" if fit.get("load_note") else ""
    return (
        f"durations are replayed as recorded, at a mean load of {load}{why}; --set alpha=… and "
        "--set environment_share=… convert them to full load"
    )
