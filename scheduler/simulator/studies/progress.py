"""Progress of a study on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

#: Seconds between two lines where there is no terminal.
LINE_EVERY_S = 15.0


class Bar:
    """`show(done, total)` after every run; `above()` while something else is printed."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.said_s = monotonic()
        self.progress: Progress | None = None
        if sys.stderr.isatty() and total > 1:
            columns = (
                TextColumn("simulating"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            self.progress = Progress(*columns, console=Console(file=sys.stderr), transient=True)
            self.task = self.progress.add_task("simulating", total=total)

    def __enter__(self) -> Bar:
        if self.progress is not None:
            self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.progress is not None:
            self.progress.stop()

    def show(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress.update(self.task, completed=done)
        elif monotonic() - self.said_s >= LINE_EVERY_S:
            self.said_s = monotonic()
            print(f"{done} of {total} runs simulated", file=sys.stderr, flush=True)

    @contextmanager
    def above(self) -> Iterator[None]:
        """The bar steps aside."""
        if self.progress is None:
            yield
            return
        self.progress.stop()
        try:
            yield
        finally:
            self.progress.start()
