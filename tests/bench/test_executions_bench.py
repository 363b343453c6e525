"""What the executions bench counts: the messages between client and server, and CPU of processes."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest
from psycopg.pq import Trace

from gyreweb.bench.counted import traffic


@pytest.fixture
def trace(database_url: str, tmp_path: Path) -> tuple[psycopg.Connection, Path]:
    """A connection whose messages are written to a file."""
    place = tmp_path / "trace"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.pgconn.trace(os.open(place, os.O_WRONLY | os.O_CREAT))
        connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        yield connection, place


def test_round_trips_and_transactions_are_those_that_were_made(trace: tuple[psycopg.Connection, Path]) -> None:
    connection, place = trace
    connection.execute("SELECT 1")
    connection.execute("SELECT %s::int", [2])
    with connection.transaction():
        connection.execute("SELECT 'a', 3")
        connection.execute("SELECT 'it''s', 4")
    connection.pgconn.untrace()
    with place.open() as lines:
        found = traffic(lines)
    assert (found.round_trips, found.transaction_control, found.transactions) == (6, 2, 3)
    assert found.statements['"SELECT ?, ?"'] == 2


def test_statements_sent_together_are_one_round_trip(trace: tuple[psycopg.Connection, Path]) -> None:
    connection, place = trace
    with connection.pipeline():
        for number in range(5):
            connection.execute("SELECT %s::int", [number])
    connection.pgconn.untrace()
    with place.open() as lines:
        assert traffic(lines).round_trips == 1


def test_what_is_read_within_a_pipeline_is_waited_for(trace: tuple[psycopg.Connection, Path]) -> None:
    connection, place = trace
    with connection.transaction(), connection.pipeline():
        connection.execute("SELECT 1")
        connection.execute("SELECT 2").fetchone()
        connection.execute("SELECT 3")
    connection.pgconn.untrace()
    with place.open() as lines:
        found = traffic(lines)
    assert (found.round_trips, found.transactions) == (4, 1)  # BEGIN; 1 and 2; 3; COMMIT
