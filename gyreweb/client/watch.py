"""Looking on until a run ends: `watch` shows it, `wait` is for pipelines, `gate` asks once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import click

from .api import patiently
from .codes import ExitCode
from .errors import Trouble, leaving_alone
from .progress import Bar
from .session import RUN, Duration, Session, connected
from .text import figure

ENDED = ("finished", "stopped")
#: One long poll, and the least time between two readings of a busy run.
WAIT_S = 30
REST_S = 2.0

LIMITS = [
    click.option("--min-reward", type=float, help="Held-out reward of the newest evaluation, at least."),
    click.option("--min-gain", type=float, help="That minus the first evaluation's, at least."),
    click.option("--max-unresolved-share", type=float, help="Of the training executions, 0 to 1."),
    click.option("--max-false-forks", type=click.IntRange(0), help="Calls that left recorded tokens, at most."),
    click.option("--margin", type=click.FloatRange(0), help="Standard errors between a held-out figure and its limit."),
]


def limited(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(LIMITS):
        command = option(command)
    return command


@click.command()
@RUN
@connected
def watch(session: Session, run_id: int) -> None:
    """Watch a run until it ends. With --json, one line per change."""
    with leaving_alone(run_id, "watch"), Bar(session.messages, session.say) as bar:

        def show(run: dict[str, Any]) -> None:
            metrics = session.api.get(f"runs/{run_id}/metrics")
            bar.show(run, metrics)
            if session.as_json:
                click.echo(json.dumps({"run": run, "metrics": metrics}))

        run = follow(session, run_id, show)
    why = f": {run['state_reason']}" if run["state_reason"] else ""
    if run["state"] != "finished":
        raise Trouble(ExitCode.RUN_STOPPED, f"run {run_id} is {run['state']}{why}")
    session.say(f"Run {run_id} is finished.")


@click.command()
@RUN
@click.option("--until", type=click.Choice(["finished"]), default="finished", show_default=True)
@click.option("--timeout", type=Duration(), help="Give up after so long, e.g. 90s, 30m, 2h.")
@click.option("--max-pause", type=Duration(), help="Give up on a run that has been paused for so long.")
@limited
@connected
def wait(
    session: Session, run_id: int, until: str, timeout: float | None, max_pause: float | None, **limits: float | None
) -> None:
    """Wait until a run has ended, and hold it against limits; the exit code says how it went."""
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    paused = Paused(max_pause)
    with leaving_alone(run_id, "wait"), Bar(session.messages, session.say) as bar:

        def show(run: dict[str, Any]) -> None:
            bar.show(run, session.api.get(f"runs/{run_id}/metrics"))
            paused.check(run)

        run = follow(session, run_id, show, deadline=deadline)
    if run["state"] not in ENDED:
        raise _time_is_up(run, "the time is up")
    _judge(session, run_id, limits)


class Paused:
    """A paused run waits for a person: a pipeline can have a limit for that of its own."""

    def __init__(self, longest: float | None) -> None:
        self._longest = longest
        self._since: float | None = None

    def check(self, run: dict[str, Any]) -> None:
        """Raises Trouble for a run that has been seen paused for too long without a break."""
        if run["state"] != "paused":
            self._since = None
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if self._longest is not None and now - self._since >= self._longest:
            raise _time_is_up(run, "it has been paused for too long")


def _time_is_up(run: dict[str, Any], why: str) -> Trouble:
    reason = f" ({run['state_reason']})" if run["state_reason"] else ""
    where = f"run {run['id']} is {run['state']}{reason} at step {run['version']} of {run['steps']}"
    return Trouble(ExitCode.TIMED_OUT, f"{why}: {where}. It is left as it is; `gyre wait {run['id']}` waits again.")


@click.command()
@RUN
@limited
@connected
def gate(session: Session, run_id: int, **limits: float | None) -> None:
    """Hold a run against limits as it is now."""
    _judge(session, run_id, limits)


def follow(
    session: Session, run_id: int, show: Callable[[dict[str, Any]], None], deadline: float = float("inf")
) -> dict[str, Any]:
    """Call `show` with the run whenever something happened to it; the run when it has ended or the time is up.

    An event's number is all that is kept, so nothing is missed while the server is away.
    """
    while True:
        run: dict[str, Any] = patiently(session.say, deadline, session.api.get, f"runs/{run_id}")
        read_at = time.monotonic()
        patiently(session.say, deadline, show, run)
        left = deadline - time.monotonic()
        if run["state"] in ENDED or left <= 0:
            return run
        query = {"after": run["event_seq"], "limit": 1, "wait": max(1, int(min(left, WAIT_S)))}
        patiently(session.say, deadline, session.api.get, f"runs/{run_id}/events", **query)
        time.sleep(max(0.0, min(read_at + REST_S, deadline) - time.monotonic()))


def _judge(session: Session, run_id: int, limits: dict[str, float | None]) -> None:
    found = patiently(session.say, float("inf"), session.api.get, f"runs/{run_id}/gate", **limits)
    session.result(found, lambda: _show(session, found))
    reasons = "; ".join(found["reasons"])
    if found["verdict"] == "pending":
        raise Trouble(ExitCode.TIMED_OUT, f"run {run_id} has not ended: {reasons}")
    if found["state"] != "finished":
        raise Trouble(ExitCode.RUN_STOPPED, f"run {run_id} is {found['state']}: {reasons}")
    if found["verdict"] != "passed":
        raise Trouble(ExitCode.GATE_FAILED, f"run {run_id} does not pass: {reasons}")


def _show(session: Session, found: dict[str, Any]) -> None:
    for name in ("first", "last"):
        if held := found[name]:
            session.line(
                f"{name} evaluation: {figure(held['mean'], held['standard_error'])} at version {held['version']}"
            )
    if found["gain"] is not None:
        session.line(f"gain: {figure(found['gain'], found['gain_standard_error'])}")
    for check in found["checks"]:
        session.line(f"{'ok' if check['passed'] else 'NOT OK'}: {check['text']}")
