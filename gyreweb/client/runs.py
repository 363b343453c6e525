"""Runs: launch, list, show, stop, pause, resume, open."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from .codes import ExitCode
from .errors import Trouble
from .session import ID, REASON, RUN, Session, connected
from .text import duration, figure, share

STATES = ("live", "queued", "starting", "running", "paused", "stopping", "stopped", "finished")


def assignment(text: str) -> tuple[str, Any]:
    """`name=value`; the value is JSON, or plain text when it is none."""
    name, equals, raw = text.partition("=")
    if not equals or not name:
        raise Trouble(ExitCode.USAGE, f"a setting is name=value, not {text!r}")
    try:
        return name, json.loads(raw)
    except ValueError:
        return name, raw


@click.command()
@click.option("--preset", default="", help="What to start from. Without one, the cluster defaults and your --set.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Change one setting; may be repeated.")
@click.option("--seed", type=int, help="What every random choice derives from.")
@click.option("--name", default="", help="Shown in lists.")
@click.option("--project", help="Needed only if you see several projects.")
@click.option("--key", default="", help="Idempotency key: the same key gives the same run. E.g. the pipeline's number.")
@connected
def launch(
    session: Session, preset: str, settings: tuple[str, ...], seed: int | None, name: str, project: str | None, key: str
) -> None:
    """Queue a run; its number is on standard output."""
    chosen = dict(map(assignment, settings))
    if seed is not None:
        chosen["seed"] = seed
    body = {"preset": preset, "settings": chosen, "name": name} | ({"project": project} if project else {})
    run = session.api.post("runs", body, key=key)
    session.say(f"Run {run['id']} is {run['state']}. `gyre watch {run['id']}` watches it; {page_of(session, run)}")
    session.result(run, lambda: click.echo(run["id"]))


@click.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only runs in this state; live: those that can still go on.")
@click.option("--search", metavar="TEXT", help="In name, preset and task set.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@connected
def list_runs(session: Session, state: str | None, search: str | None, limit: int) -> None:
    """Runs, newest first."""
    rows = session.api.pages("runs", limit, state=state, q=search)
    head = ("run", "name", "preset", "state", "step", "of", "waterlevel", "created")
    cells = [
        (row["id"], row["name"], row["preset"], row["state"], row["version"], row["steps"], row["waterlevel"],
         row["created_at"][:16].replace("T", " "))
        for row in rows
    ]  # fmt: skip
    session.result(rows, lambda: session.table(head, cells))


@click.command()
@RUN
@connected
def show(session: Session, run_id: int) -> None:
    """One run with its figures and alarms."""
    run, metrics = session.api.get(f"runs/{run_id}"), session.api.get(f"runs/{run_id}/metrics")
    session.result({"run": run, "metrics": metrics}, lambda: _show(session, run, metrics))


def _show(session: Session, run: dict[str, Any], metrics: dict[str, Any]) -> None:
    why = f": {run['state_reason']}" if run["state_reason"] else ""
    session.facts(
        {
            "run": f"{run['id']} {run['name']}",
            "state": f"{run['state']}{why}",
            "preset": f"{run['preset'] or '–'}, seed {run['seed']}, policy {run['policy_kind']}",
            "step": f"{metrics['step']} of {metrics['steps']}",
            "held-out reward": f"{figure(metrics['heldout_first'])} → {figure(metrics['heldout_last'])}",
            "sampled reward": figure(metrics["rewards"][-1]["mean"]) if metrics["rewards"] else "–",
            "waterlevel": f"{metrics['waterlevel']}; room for {metrics['room']}",
            "cells": f"{metrics['cells_in_rollout']} in rollout, {metrics['cells_in_training']} in training",
            "unresolved": f"{metrics['unresolved']} of {metrics['finished']} ({share(metrics['unresolved_share'])})",
            "false forks": f"{metrics['false_forks']} in {metrics['calls']} calls",
            "left": duration(metrics["eta_s"]),
            "page": page_of(session, run),
        }
    )
    for alarm in metrics["alarms"]:
        session.line(f"{alarm['tone']}: {alarm['head']} {alarm['text']}")


def page_of(session: Session, run: dict[str, Any]) -> str:
    return f"{session.api.url}/runs/{run['id']}/"


def _change(session: Session, run_id: int, act: str, reason: str) -> None:
    run = session.api.post(f"runs/{run_id}/{act}", {"reason": reason})
    session.result(run, lambda: session.line(f"Run {run_id} is {run['state']}."))


@click.command()
@RUN
@REASON
@connected
def stop(session: Session, run_id: int, reason: str) -> None:
    """End a run: owed executions are cancelled, what was stepped stays."""
    _change(session, run_id, "stop", reason)


@click.command()
@RUN
@REASON
@connected
def pause(session: Session, run_id: int, reason: str) -> None:
    """Launch nothing more; running executions finish and are kept."""
    _change(session, run_id, "pause", reason)


@click.command()
@RUN
@click.option("--reason", default="", help="Why; it is kept with the run.")
@connected
def resume(session: Session, run_id: int, reason: str) -> None:
    """Let a paused run go on."""
    _change(session, run_id, "resume", reason)


@click.command("open")
@click.argument("run_id", metavar="[RUN]", type=ID, required=False)
@click.option("--execution", type=ID, help="The page of this execution instead.")
@connected
def open_page(session: Session, run_id: int | None, execution: int | None) -> None:
    """Open a page in the browser; its address is on standard output in any case."""
    path = f"executions/{execution}/" if execution else f"runs/{run_id}/" if run_id else ""
    address = f"{session.api.url}/{path}"
    session.result({"url": address}, lambda: click.echo(address))
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        click.launch(address)
    else:
        session.say("There is no display here; open the address in a browser.")
