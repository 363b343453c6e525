"""The Celery app of a worker whose database traffic is counted: `celery -A gyreweb.bench.counted worker …`.

libpq writes every message of every connection to a file of this process (`PQtrace`), so nothing is missed and nothing
is counted twice, whoever sends it: Django, psycopg, its pool. A signal has the pool say how long threads waited.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg.pq import Trace

from gyreweb.celery import app

__all__ = ["app"]

#: The folder for this process's files; where it is not set nothing is counted.
FOLDER_VARIABLE = "GYRE_BENCH_COUNTS"
#: Asks for the pool's figures, which are then those since the last time.
REPORT_SIGNAL = signal.SIGRTMIN + 5
SUFFIX = ".trace"
_CONTROL = re.compile(r'[\s"]*(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)')
_LITERAL = re.compile(r"'(?:[^']|'')*'|\b\d+\b")


@dataclass
class Traffic:
    """What went over the wire."""

    round_trips: int = 0
    #: Those of `round_trips` that carried nothing but BEGIN, COMMIT, ROLLBACK or a savepoint.
    transaction_control: int = 0
    #: Explicit ones, and statements outside of any.
    transactions: int = 0
    statements: Counter[str] = field(default_factory=Counter)

    def add(self, other: Traffic) -> None:
        self.round_trips += other.round_trips
        self.transaction_control += other.transaction_control
        self.transactions += other.transactions
        self.statements += other.statements


def traffic(lines: Iterator[str]) -> Traffic:
    """Read what libpq wrote of one connection. Whenever the client waits for what it has sent, that is a round trip."""
    found, in_transaction, sent = Traffic(), False, []
    for line in lines:
        match line.rstrip("\n").split("\t"):
            case ["F", _, "Query", text, *_]:
                sent.append(text)
            case ["F", _, "Parse", _name, *_] as parts:
                sent.append(parts[-1])
            case ["F", _, *_] if not sent:
                sent.append("")
            case ["B", _, kind, *rest]:
                if sent:
                    found.round_trips += 1
                    found.transaction_control += all(_CONTROL.match(text) for text in sent)
                    found.statements.update(_LITERAL.sub("?", text.strip())[:120] for text in sent)
                    sent = []
                if kind == "ReadyForQuery":
                    is_in = rest[0].strip() != "I"
                    found.transactions += not in_transaction
                    in_transaction = is_in
    return found


def trace_connections(folder: Path) -> None:
    """From now on every connection that psycopg opens in this process writes its messages to a file of its own."""
    connect = psycopg.Connection.connect.__func__  # type: ignore[attr-defined]  # a bound method has it
    numbers = itertools.count()

    def traced(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        connection = connect(cls, *args, **kwargs)
        place = folder / f"{os.getpid()}-{next(numbers)}{SUFFIX}"
        connection.pgconn.trace(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        return connection

    psycopg.Connection.connect = classmethod(traced)  # type: ignore[assignment,method-assign]  # replaced on purpose
    psycopg.connect = psycopg.Connection.connect


def total(folder: Path, sizes: Mapping[Path, int] = MappingProxyType({})) -> Traffic:
    """All that was written to files of `folder`, less what they held before: `sizes`."""
    found = Traffic()
    for place in folder.glob(f"*{SUFFIX}"):
        with place.open(errors="replace") as file:
            file.seek(sizes.get(place, 0))
            found.add(traffic(file))
    return found


def _report_on_signal(folder: Path) -> None:
    def report(_number: int, _frame: object) -> None:
        from django.db import connection

        place = folder / f"{os.getpid()}.pool"
        place.with_suffix(".new").write_text(json.dumps(connection.pool.pop_stats()))
        place.with_suffix(".new").replace(place)

    signal.signal(REPORT_SIGNAL, report)


if folder := os.environ.get(FOLDER_VARIABLE):
    trace_connections(Path(folder))
    _report_on_signal(Path(folder))
