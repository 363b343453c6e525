"""What every command has: the server, and where its words go. Results are on standard output, all else is not."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import config
from .api import Api
from .text import clean

#: Off a terminal nothing is cut to a width.
WIDE = 400


class Session:
    def __init__(self, url: str | None, as_json: bool) -> None:
        self._url = url
        self.as_json = as_json

    @cached_property
    def api(self) -> Api:
        return Api(config.chosen(self._url))

    @cached_property
    def console(self) -> Console:
        return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)

    @cached_property
    def messages(self) -> Console:
        return Console(highlight=False, stderr=True, width=None if sys.stderr.isatty() else WIDE)

    def say(self, text: str) -> None:
        """To the person who looks on."""
        self.messages.print(Text(clean(text)), soft_wrap=True)

    def result(self, value: Any, show: Callable[[], None]) -> None:
        """`value` for machines, `show` for people. ASCII only: JSON then holds nothing that a terminal obeys."""
        if self.as_json:
            click.echo(json.dumps(value, ensure_ascii=True))
        else:
            show()

    def line(self, text: str) -> None:
        self.console.print(Text(clean(text)), soft_wrap=True)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Columns of numbers stand to the right."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for index, name in enumerate(head):
            numbers = all(isinstance(row[index], int | float) for row in rows)
            table.add_column(name, justify="right" if numbers and rows else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(clean(cell)) for cell in row))
        self.console.print(table)

    def facts(self, pairs: dict[str, Any]) -> None:
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for name, value in pairs.items():
            table.add_row(name, Text(clean(value)))
        self.console.print(table)


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command its session, and the options that all commands have."""

    @click.option("--json", "as_json", is_flag=True, help="One JSON value on standard output, for machines.")
    @click.option("--url", metavar="URL", help="The server; else GYRE_URL, else that of `gyre login`.")
    @functools.wraps(command)
    def run(*args: Any, url: str | None, as_json: bool, **options: Any) -> Any:
        return command(Session(url, as_json), *args, **options)

    return run


class Duration(click.ParamType[float]):
    """Seconds: `90`, `90s`, `30m`, `2h`, `1d`."""

    name = "duration"
    UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        number, unit = (value[:-1], value[-1]) if value[-1:] in self.UNITS else (value, "s")
        if not number.isascii() or not number.isdecimal() or len(number) > 9:
            self.fail(f"{value!r} is no duration; it looks like 90s, 30m, 2h or 1d", param, ctx)
        return float(int(number) * self.UNITS[unit])


ID = click.IntRange(1, 10**15)
RUN = click.argument("run_id", metavar="RUN", type=ID)
REASON = click.option("--reason", required=True, help="Why; it is kept with the run.")
