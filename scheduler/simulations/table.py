"""A study as text: one table per point, what every ratio is measured against, and a legend."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scheduler.scenarios import Scenario
from scheduler.simulations.definitions import LEGEND, definition
from scheduler.simulations.study import REFERENCE
from scheduler.simulations.summary import Interval, PolicySummary, Summary

WIDTH_OF_FILES = 132
WIDTH_OF_TABLE = 124
#: Settings that every reader asks for first, with the sign they have in the design.
HEAD_SETTINGS = (
    ("cells", "K"), ("concurrency_per_cell", "c"), ("groups_per_batch", "B"), ("executions_per_group", "N"),
    ("burst_batches", "S"), ("burst_lead", "lead"), ("rho_min", "rho_min"), ("j_max", "J_max"), ("steps", "steps"),
)  # fmt: skip


def console_of(stream: TextIO | None = None) -> Console:
    """As wide as the terminal; wide enough for every column when the output is a file or a pipe."""
    stream = stream or sys.stdout
    return Console(file=stream, highlight=False, width=None if stream.isatty() else WIDTH_OF_FILES)


def print_scenario(console: Console, scenario: Scenario, changes: Mapping[str, Any]) -> None:
    settings = scenario.settings
    facts = ", ".join(f"{sign} {getattr(settings, name):g}" for name, sign in HEAD_SETTINGS)
    console.print(Text(scenario.name, style="bold"), Text(f"  {facts}"))
    if scenario.description:
        console.print(Text(scenario.description, style="dim"))
    if changes:
        console.print(Text("set: " + ", ".join(f"{name}={value:g}" for name, value in changes.items())))
    if scenario.recorded:
        count = sum(len(group) for group in scenario.recorded)
        console.print(Text(f"durations: {count} recorded executions of {len(scenario.recorded)} groups, replayed"))


def print_summary(console: Console, summary: Summary, *, gpus_per_cell: int = 0) -> None:
    """The table of one point."""
    point = summary.point
    if point.changes:
        told = ", ".join(f"{name} = {value:g}" for name, value in point.changes.items())
        console.print(Text(f"\n{told}", style="bold"))
    if any(policy.results for policy in summary.policies):
        console.print(_table(summary, gpus_per_cell, wide=console.width >= WIDTH_OF_TABLE))
    for policy in summary.policies:
        for error in policy.errors:
            console.print(Padding(Text(f"{policy.policy} did not finish, {error}", style="red"), (0, 0, 0, 1)))
    for note in _notes(summary):
        console.print(Padding(Text(note), (0, 0, 0, 1)))


def _table(summary: Summary, gpus_per_cell: int, *, wide: bool) -> Table:
    """A row per policy; on a narrow terminal a column per policy."""
    unit = "GPU-h" if gpus_per_cell else "cell-h"
    names = ("hours", "h/step", "ratio", unit, "E(d)", "rollout", "full", "training", "busy", "moves", "bound", "over")
    rows = [_row(policy, gpus_per_cell or 1) for policy in summary.policies if policy.results]
    head: tuple[str, ...] = ("policy", *names)
    if not wide:
        head, *rows = zip(head, *rows, strict=True)  # type: ignore[assignment]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left", no_wrap=not place, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _row(policy: PolicySummary, per_cell: int) -> list[str]:
    used = policy.utilisation
    ratio = "-" if policy.ratio is None else f"{policy.ratio:.3f}"
    return [
        policy.policy,
        f"{policy.hours:.2f}{_half(policy.hours_interval, 1)}",
        f"{policy.hours_per_step:.3f}",
        ratio if policy.policy == REFERENCE else f"{ratio}{_half(policy.ratio_interval, 2)}",
        f"{policy.median('cell_hours') * per_cell:,.0f}",
        f"{policy.mean('mean_staleness'):.2f}",
        f"{used['rollout']:.0%}",
        f"{used['rollout_load'] / used['rollout']:.0%}" if used["rollout"] else "-",
        f"{used['training']:.0%}",
        f"{used['training_busy']:.0%}",
        f"{policy.switches:.0f}",
        f"{policy.bound_h_per_step:.3f}",
        f"{policy.hours_per_step / policy.bound_h_per_step - 1.0:+.0%}",
    ]


def _half(interval: Interval | None, digits: int) -> str:
    """Half the width of an interval, as read beside its middle."""
    return f" ± {(interval[1] - interval[0]) / 2:.{digits}f}" if interval else ""


def _notes(summary: Summary) -> Iterator[str]:
    first = summary.first
    if first is not None:
        yield (
            f"{first.policy}: execution {first.mean('execution_h'):.2f} h, query {first.mean('query_h'):.2f} h, "
            f"{first.mean('query_ge_4h'):.1%} of queries >= 4 h, {first.mean('timeout_share'):.1%} timeouts; "
            f"longest chain of a burst {first.chain_h_per_step:.3f} h/step"
        )
    for policy in summary.policies:
        if policy.split is not None:
            cells = summary.point.scenario.settings.cells
            split = f"{policy.split} training, {cells - policy.split} rollout"
            yield f"{policy.policy}: the fastest of {cells - 1} splits is {split}"
    if not summary.asked_reference:
        hours = f"{summary.reference.hours:.2f} h" if summary.reference else "no result"
        yield f"{REFERENCE} was not asked for; it ran as the reference of the ratios only: {hours}"
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
        beside = "" if simulated is None else f", simulated {simulated:.4g} ({error:+.1%})"
        yield f"  {name.replace('_', ' ')}: recorded {recorded:.4g}{beside}"
    if "stuck" in fit:
        yield f"  the simulation of it could not go on: {fit['stuck']}"
    if fit.get("assumed"):
        yield f"  not measured by the run, so assumed: {', '.join(fit['assumed'])}"
