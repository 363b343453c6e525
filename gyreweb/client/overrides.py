"""Overrides: what a person decides in the scheduler's place, with a reason and an end."""

from __future__ import annotations

import json
from typing import Any

import click

from .runs import assignment
from .session import ID, REASON, RUN, Duration, Session, connected


@click.group()
def override() -> None:
    """Decide in the scheduler's place."""


@override.command("set")
@RUN
@click.argument("kind")
@click.argument("setting", metavar="[NAME=VALUE]", required=False)
@click.option("--cell", type=click.IntRange(0), help="Which cell.")
@click.option("--role", help="With `pin`: rollout or training.")
@REASON
@click.option("--for", "seconds", type=Duration(), default="1h", show_default=True, help="How long it holds.")
@click.option("--unsafe", is_flag=True, help="Also against the capacity rule.")
@connected
def set_override(
    session: Session, run_id: int, kind: str, setting: str | None, cell: int | None, role: str | None, reason: str,
    seconds: float, unsafe: bool,
) -> None:  # fmt: skip
    """Set an override of KIND: pin, forbid_switch, drain, hold_dispatch, or setting NAME=VALUE."""
    value: dict[str, Any] = {"role": role} if role else {}
    if setting:
        name, given = assignment(setting)
        value = {"name": name, "value": given}
    body = {"kind": kind, "cell_index": cell, "value": value, "reason": reason, "expires_in_s": int(seconds)}
    row = session.api.post(f"runs/{run_id}/overrides", body | {"unsafe": unsafe})
    session.result(row, lambda: session.line(f"Override {row['id']}: {words(row)}"))


@override.command("list")
@RUN
@connected
def list_overrides(session: Session, run_id: int) -> None:
    """Overrides in force."""
    rows = session.api.get(f"runs/{run_id}/overrides")["results"]
    head = ("override", "what", "by", "reason")
    cells = [(row["id"], words(row), row["owner"], row["reason"]) for row in rows]
    session.result(rows, lambda: session.table(head, cells))


@override.command("release")
@RUN
@click.argument("override_id", metavar="OVERRIDE", type=ID)
@connected
def release_override(session: Session, run_id: int, override_id: int) -> None:
    """End an override before its time."""
    row = session.api.delete(f"runs/{run_id}/overrides/{override_id}")
    session.result(row, lambda: session.line(f"Override {override_id} is released."))


def words(row: dict[str, Any]) -> str:
    """`pin cell 1 to rollout until 2026-01-01 20:44 UTC`."""
    value = row["value"]
    where = "" if row["cell_index"] is None else f" cell {row['cell_index']}"
    what = f" {value['name']} = {json.dumps(value.get('value'))}" if "name" in value else ""
    what += f" to {value['role']}" if "role" in value else ""
    safe = ", unsafe" if row["unsafe"] else ""
    return f"{row['kind']}{where}{what} until {row['expires_at'][:16].replace('T', ' ')} UTC{safe}"
