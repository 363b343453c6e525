"""Looking into an execution: the tree of its calls, and its tokens."""

from __future__ import annotations

from typing import Any

import click

from .session import ID, Session, connected
from .text import figure, spans

EXECUTION = click.argument("execution_id", metavar="EXECUTION", type=ID)


@click.command()
@EXECUTION
@connected
def tree(session: Session, execution_id: int) -> None:
    """Outline of an execution's calls: tokens, what is trained, and why not."""
    found = session.api.get(f"executions/{execution_id}/tree")
    head = ("calls", "role", "added", "sampled", "trained", "draw", "why")
    rows = [
        ("  " * row["depth"] + spans(row["calls"]), row["role"], row["added_tokens"], row["sampled_tokens"],
         row["trained_tokens"], "" if row["draw"] is None else row["draw"] + 1, row["why"])
        for row in found["rows"]
    ]  # fmt: skip
    session.result(found, lambda: session.table(head, rows))


@click.command()
@EXECUTION
@click.option("--call", type=click.IntRange(0), help="The path to this call; else the first that was drawn.")
@click.option("--start", type=click.IntRange(0), default=0, show_default=True, help="First position.")
@click.option("--limit", type=click.IntRange(1, 2048), default=200, show_default=True)
@connected
def tokens(session: Session, execution_id: int, call: int | None, start: int, limit: int) -> None:
    """Tokens on the path to a call: id, text, log-probability, weight version, and whether it is trained."""
    found = session.api.get(f"executions/{execution_id}/tokens", call=call, start=start, limit=limit)
    session.result(found, lambda: _show(session, found))


def _show(session: Session, found: dict[str, Any]) -> None:
    head = ("position", "id", "text", "call", "what", "logprob", "version")
    rows = [
        (token["position"], token["id"], repr(token["text"]), token["call"],
         "trained" if token["trained"] else "sampled" if token["sampled"] else "context",
         figure(token["logprob"]), "–" if token["version"] is None else token["version"])
        for token in found["results"]
    ]  # fmt: skip
    session.table(head, rows)
    more = "" if found["next"] is None else f"; `--start {found['next']}` goes on"
    session.say(
        f"Path to call {found['call']}: {found['num_path']} tokens, {found['num_trained']} trained, "
        f"advantage {figure(found['advantage'])}{more}"
    )
