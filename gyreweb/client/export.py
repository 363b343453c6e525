"""Tables of a run as files. A file has its name only once it is whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn

from .codes import ExitCode
from .errors import Trouble
from .session import RUN, Session, connected
from .text import clean

TABLES = ("tasks", "groups", "executions", "assessments", "calls", "draws", "trajectories")
PIECE = 1 << 20


@click.command()
@RUN
@click.argument("tables", metavar="[TABLE]…", type=click.Choice(TABLES), nargs=-1)
@click.option(
    "--format", "extension", type=click.Choice(["parquet", "jsonl", "csv"]), default="parquet", show_default=True
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("."), help="Folder for the files."
)
@click.option("--outcome", help="Only executions with this outcome.")
@click.option("--kind", type=click.Choice(["training", "evaluation"]), help="Only executions of this kind.")
@connected
def export(
    session: Session, run_id: int, tables: tuple[str, ...], extension: str, out: Path, outcome: str | None,
    kind: str | None,
) -> None:  # fmt: skip
    """Save TABLEs of a run (all of them if none is named)."""
    written = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for table in tables or TABLES:
            target = out / f"run-{run_id}-{table}.{extension}"
            written.append(
                _save(session, f"runs/{run_id}/exports/{table}.{extension}", target, outcome=outcome, kind=kind)
            )
    except OSError as error:
        raise Trouble(ExitCode.USAGE, f"{out} cannot be written to: {error.strerror or error}") from error
    except KeyboardInterrupt:
        raise Trouble(
            ExitCode.INTERRUPTED, f"interrupted; {len(written)} files are whole, the same command begins anew"
        ) from None
    session.result(written, lambda: click.echo("\n".join(clean(row["path"]) for row in written)))


def _save(session: Session, path: str, target: Path, **query: Any) -> dict[str, Any]:
    fresh = target.with_name(f".{target.name}.{os.getpid()}.part")
    num_bytes = num_rows = 0
    counted = target.suffix == ".jsonl"
    try:
        with session.api.stream(path, **query) as reply, fresh.open("wb") as file, _bar(session) as bar:
            total = reply.headers.get("X-Total-Rows", "")
            rows = int(total) if total.isdecimal() else None
            note = "" if rows is None else f"{rows} rows"
            task = bar.add_task(f"{target.name} {note}", total=rows if counted else None)
            for piece in reply.iter_bytes(PIECE):
                file.write(piece)
                num_bytes += len(piece)
                num_rows += piece.count(b"\n")
                bar.update(task, completed=num_rows if counted else num_bytes)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
    session.say(f"{target}: {num_bytes:,} bytes" + (f", {num_rows:,} rows" if counted else f", {note}" if note else ""))
    return {"path": str(target), "bytes": num_bytes, "rows": num_rows if counted else rows}


def _bar(session: Session) -> Progress:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.completed:,.0f}"))
    return Progress(*columns, console=session.messages, transient=True, disable=not session.messages.is_terminal)
