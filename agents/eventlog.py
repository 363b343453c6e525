"""Append to a run's event log from processes that do not load Django (proxy, cell agents).

The scheduler rings the doorbell for these events when it sees the run's `event_seq` rise.
"""

import json
from typing import Any

import psycopg


def append(connection: psycopg.Connection[Any], run_id: int, kind: str, payload: dict[str, Any]) -> int:
    """Append one event in the caller's transaction; returns its seq. `kind` is a value of agents.events.EventKind."""
    row = connection.execute(
        """
        WITH numbered AS (UPDATE agents_run SET event_seq = event_seq + 1 WHERE id = %(run)s RETURNING event_seq)
        INSERT INTO agents_runevent (run_id, seq, kind, payload, created_at)
        SELECT %(run)s, event_seq, %(kind)s, %(payload)s, now() FROM numbered RETURNING seq
        """,
        {"run": run_id, "kind": kind, "payload": json.dumps(payload)},
    ).fetchone()
    if row is None:
        raise LookupError(f"run {run_id} does not exist")
    return int(row[0] if not isinstance(row, dict) else row["seq"])
