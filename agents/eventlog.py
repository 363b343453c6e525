"""Append to a run's event log: the one place that numbers events. For processes without Django (proxy, cells), too.

The scheduler rings the doorbell for these events when it sees the run's `event_seq` rise.
"""

import json
from typing import Any

import psycopg


def appending(also_set: str = "", only_if: str = "TRUE") -> str:
    """Two steps of a WITH: `numbered` raises the run's `event_seq` and locks its row, `logged` inserts the events.

    They take `run` and `events`, JSON of [kind, payload] for each. `also_set`: more columns of the run to set;
    `only_if`: without this condition nothing happens.
    """
    return f"""numbered AS (
    UPDATE agents_run SET event_seq = event_seq + jsonb_array_length(%(events)s::jsonb){also_set and ", " + also_set}
    WHERE id = %(run)s AND {only_if} RETURNING event_seq
), logged AS (
    INSERT INTO agents_runevent (run_id, seq, kind, payload, created_at)
    SELECT %(run)s, n.event_seq - jsonb_array_length(%(events)s::jsonb) + e.ordinality, e.value ->> 0, e.value -> 1,
        statement_timestamp()
    FROM numbered n, jsonb_array_elements(%(events)s::jsonb) WITH ORDINALITY e
)"""


_APPEND = f"WITH {appending()} SELECT event_seq FROM numbered"


def append(connection: psycopg.Connection[Any], run_id: int, kind: str, payload: dict[str, Any]) -> int:
    """Append one event in the caller's transaction; returns its seq. `kind` is a value of agents.events.EventKind."""
    row = connection.execute(_APPEND, {"run": run_id, "events": json.dumps([[kind, payload]])}).fetchone()
    if row is None:
        raise LookupError(f"run {run_id} does not exist")
    return int(row[0] if not isinstance(row, dict) else row["event_seq"])
