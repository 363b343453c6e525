"""What ends a command: one sentence for standard error, and an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from .codes import ExitCode
from .text import clean


class Trouble(click.ClickException):
    """The message says what to do."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(clean(message))
        self.code = code


class Unreachable(Trouble):
    """Worth another try: the server may be restarting."""

    def __init__(self, message: str) -> None:
        super().__init__(ExitCode.UNREACHABLE, message)


@contextmanager
def leaving_alone(run_id: int, command: str) -> Iterator[None]:
    """Ctrl-C ends the command and not the run; it says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Trouble(
            ExitCode.INTERRUPTED,
            f"interrupted; run {run_id} goes on. `gyre {command} {run_id}` looks at it again, "
            f'`gyre stop {run_id} --reason "…"` stops it.',
        ) from None
