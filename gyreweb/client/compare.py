"""Runs side by side: what came out, and the settings that differ."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from .codes import ExitCode
from .errors import Trouble
from .session import ID, Session, connected
from .text import duration, figure, share

MOST = 6


@click.command()
@click.argument("run_ids", metavar="RUN RUN…", type=ID, nargs=-1)
@connected
def compare(session: Session, run_ids: tuple[int, ...]) -> None:
    """Compare two to six runs: figures, and settings that differ."""
    if not 2 <= len(run_ids) <= MOST:
        raise Trouble(ExitCode.USAGE, f"name two to {MOST} runs, e.g. `gyre compare 3 4`")
    found = [_read(session, run_id) for run_id in run_ids]
    settings = differing([one["run"]["config"] for one in found])
    session.result({"runs": found, "settings": settings}, lambda: _show(session, found, settings))


def _read(session: Session, run_id: int) -> dict[str, Any]:
    path = f"runs/{run_id}"
    return {
        name: session.api.get(path + rest) for name, rest in {"run": "", "metrics": "/metrics", "gate": "/gate"}.items()
    }


def differing(configs: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Settings by name, one value per run, where the runs differ."""
    names = sorted({name for config in configs for name in config})
    rows = {name: [config.get(name) for config in configs] for name in names}
    return {name: values for name, values in rows.items() if any(value != values[0] for value in values)}


def _show(session: Session, found: list[dict[str, Any]], settings: dict[str, list[Any]]) -> None:
    rows = [[name, *(read(one) for one in found)] for name, read in _FIGURES.items()]
    rows += [[name, *values] for name, values in settings.items()]
    session.table(["", *(f"run {one['run']['id']}" for one in found)], rows)


def _held(one: dict[str, Any], which: str) -> str:
    held = one["gate"][which]
    return figure(held["mean"], held["standard_error"]) if held else "–"


def _took(one: dict[str, Any]) -> str:
    start, end = one["run"]["started_at"], one["run"]["finished_at"]
    if not start or not end:
        return "–"
    return duration((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


_FIGURES: dict[str, Any] = {
    "name": lambda one: one["run"]["name"],
    "state": lambda one: one["run"]["state"],
    "step": lambda one: f"{one['metrics']['step']} of {one['metrics']['steps']}",
    "first held-out reward": lambda one: _held(one, "first"),
    "last held-out reward": lambda one: _held(one, "last"),
    "held-out gain": lambda one: figure(one["gate"]["gain"], one["gate"]["gain_standard_error"]),
    "mean staleness": lambda one: figure(one["metrics"]["staleness_mean"], digits=2),
    "unresolved": lambda one: share(one["metrics"]["unresolved_share"]),
    "false forks": lambda one: str(one["metrics"]["false_forks"]),
    "took": _took,
}
