"""A run's progress: in a terminal a bar that is redrawn, else a line whenever something is worth one."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from .text import clean, duration, figure

#: Off a terminal an unchanged run gets a line this seldom.
QUIET_S = 60.0


def words(run: dict[str, Any], metrics: dict[str, Any]) -> str:
    """Reward, waterlevel and what is left."""
    sampled = metrics["rewards"][-1]["mean"] if metrics["rewards"] else None
    parts = [
        f"held-out {figure(metrics['heldout_last'])}",
        f"sampled {figure(sampled)}",
        f"waterlevel {metrics['waterlevel']}",
        f"left {duration(metrics['eta_s'])}",
    ]
    why = f" ({run['state_reason']})" if run["state_reason"] else ""
    return clean(f"{run['state']}{why} · " + " · ".join(parts))


class Bar:
    """Use as a context. In a terminal it draws to `console`; else `say` gets lines."""

    def __init__(self, console: Console, say: Callable[[str], None]) -> None:
        self._say = say
        self._last: tuple[Any, float] = (None, float("-inf"))
        self._bar = Progress(
            TextColumn("run {task.fields[run]}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False), console=console, transient=True,
        ) if console.is_terminal else None  # fmt: skip
        self._task = self._bar.add_task("", total=None, run="") if self._bar else None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, run: dict[str, Any], metrics: dict[str, Any]) -> None:
        text = words(run, metrics)
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task, completed=run["version"], total=run["steps"], description=text, run=str(run["id"])
            )
            return
        key = (run["state"], run["version"], metrics["heldout_last"])
        if key != self._last[0] or time.monotonic() - self._last[1] >= QUIET_S:
            self._say(f"run {run['id']} · step {run['version']} of {run['steps']} · {text}")
            self._last = (key, time.monotonic())
