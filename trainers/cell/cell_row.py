"""The SQL of a cell agent outside the ledger: its own row, its role changes, the newest weights, checkpoints."""

import json
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from agents import eventlog
from agents.channels import CELLS_CHANNEL
from trainers.ledger import CellEpoch

Connection = psycopg.Connection[Any]
#: Phase of a cell in rollout whose engine is between two weight versions: the proxies route nothing to it.
TAKES_WEIGHTS = "weights"


@dataclass(frozen=True)
class DesiredState:
    """What the scheduler desires of this cell, and the newest published version (-1 before the first)."""

    desired_role: str
    evaluation: int | None
    newest_version: int


@dataclass(frozen=True)
class Weights:
    """The newest published version; `core_alive` is False when the process that offers it is gone."""

    version: int
    sha256: str
    manifest: dict[str, Any]
    core_alive: bool


@dataclass(frozen=True)
class CoreRow:
    epoch: int
    alive: bool
    transfer_address: str
    transfer_slots: dict[str, Any]


@dataclass(frozen=True)
class CheckpointRow:
    version: int
    path: str
    sha256: str


@dataclass(frozen=True)
class RunFacts:
    config: dict[str, Any]
    seed: int
    version: int
    is_core: bool


def run_facts(connection: Connection, cell: CellEpoch) -> RunFacts:
    """Raises LookupError when the cell is not (or no longer) in this epoch."""
    row = connection.execute(
        "SELECT r.config, r.seed, r.version, c.is_core FROM agents_run r JOIN scheduler_cell c ON c.run_id = r.id "
        "WHERE r.id = %s AND c.index = %s AND c.epoch = %s",
        (cell.run_id, cell.cell_index, cell.epoch),
    ).fetchone()
    if row is None:
        raise LookupError(f"cell {cell.cell_index} of run {cell.run_id} is not in epoch {cell.epoch}")
    return RunFacts(*row)


def desired_state(connection: Connection, cell: CellEpoch) -> DesiredState | None:
    """None: this epoch is over."""
    row = connection.execute(
        "SELECT desired_role, evaluation, "
        "(SELECT coalesce(max(version), -1) FROM trainers_weightversion WHERE run_id = %s) "
        "FROM scheduler_cell WHERE run_id = %s AND index = %s AND epoch = %s",
        (cell.run_id, cell.run_id, cell.cell_index, cell.epoch),
    ).fetchone()
    return None if row is None else DesiredState(*row)


def report(connection: Connection, cell: CellEpoch, *, notify: bool = False, **columns: Any) -> bool:
    """Set columns of the cell's own row; a new `role` also sets role_since. False: this epoch is over."""
    columns = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in columns.items()}
    if "role" in columns:
        assignments = [
            sql.SQL("role_since = CASE WHEN role = {} THEN role_since ELSE now() END").format(columns["role"])
        ]
    else:
        assignments = []
    assignments += [sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in columns.items()]
    query = sql.SQL("UPDATE scheduler_cell SET {} WHERE run_id = {} AND index = {} AND epoch = {}").format(
        sql.SQL(", ").join(assignments), cell.run_id, cell.cell_index, cell.epoch
    )
    with connection.transaction():
        done = connection.execute(query)
        if notify:
            connection.execute("SELECT pg_notify(%s, %s)", (CELLS_CHANNEL, str(cell.run_id)))
    return done.rowcount == 1


def beat(connection: Connection, cell: CellEpoch, num_calls: int, num_kv_tokens: int, tokens_per_s: float) -> bool:
    """Heartbeat by the database's clock. False: this epoch is over."""
    done = connection.execute(
        "UPDATE scheduler_cell SET heartbeat_at = now(), num_calls = %s, num_kv_tokens = %s, tokens_per_s = %s "
        "WHERE run_id = %s AND index = %s AND epoch = %s",
        (num_calls, num_kv_tokens, tokens_per_s, cell.run_id, cell.cell_index, cell.epoch),
    )
    return done.rowcount == 1


def finish_role_change(
    connection: Connection,
    cell: CellEpoch,
    phases: list[tuple[str, float]],
    *,
    to_role: str,
    error: str = "",
) -> None:
    """Close the newest started role change of this epoch, with its phases, and say so in the event log."""
    state = "failed" if error else "finished"
    with connection.transaction():
        row = connection.execute(
            """
            UPDATE scheduler_rolechange SET state = %s, phases = %s, error = %s, finished_at = now() WHERE id = (
                SELECT r.id FROM scheduler_rolechange r JOIN scheduler_cell c ON c.id = r.cell_id
                WHERE c.run_id = %s AND c.index = %s AND r.epoch = %s AND r.state = 'started'
                ORDER BY r.id DESC LIMIT 1)
            RETURNING from_role, to_role
            """,
            (state, json.dumps(phases), error, cell.run_id, cell.cell_index, cell.epoch),
        ).fetchone()
        payload: dict[str, Any] = {
            "cell": cell.cell_index,
            "to_role": row[1] if row else to_role,
            "phases": phases,
            "state": state,
        }
        if row:
            payload["from_role"] = row[0]
        if error:
            payload["error"] = error
        eventlog.append(connection, cell.run_id, "role_change_finished", payload)


def newest_weights(connection: Connection, run_id: int) -> Weights | None:
    row = connection.execute(
        """
        SELECT w.version, w.sha256, w.manifest, EXISTS (
            SELECT 1 FROM scheduler_cell c WHERE c.run_id = w.run_id AND c.index = w.cell_index
            AND c.epoch = w.epoch AND c.role NOT IN ('lost', 'stopped'))
        FROM trainers_weightversion w WHERE w.run_id = %s ORDER BY w.version DESC LIMIT 1
        """,
        (run_id,),
    ).fetchone()
    return None if row is None else Weights(*row)


def core_row(connection: Connection, run_id: int) -> CoreRow | None:
    row = connection.execute(
        "SELECT epoch, role NOT IN ('lost', 'stopped'), transfer_address, transfer_slots FROM scheduler_cell "
        "WHERE run_id = %s AND is_core",
        (run_id,),
    ).fetchone()
    return None if row is None else CoreRow(*row)


def satellites(connection: Connection, run_id: int) -> list[tuple[int, int]]:
    """(index, epoch) of the live satellites."""
    rows = connection.execute(
        "SELECT index, epoch FROM scheduler_cell WHERE run_id = %s AND NOT is_core AND epoch > 0 "
        "AND role NOT IN ('lost', 'stopped') ORDER BY index",
        (run_id,),
    ).fetchall()
    return [(row[0], row[1]) for row in rows]


def checkpoints(connection: Connection, run_id: int, version: int) -> list[CheckpointRow]:
    """Those that are kept, up to `version`, newest first."""
    rows = connection.execute(
        "SELECT version, path, sha256 FROM trainers_checkpoint "
        "WHERE run_id = %s AND version <= %s AND deleted_at IS NULL ORDER BY version DESC",
        (run_id, version),
    ).fetchall()
    return [CheckpointRow(*row) for row in rows]


def mark_checkpoints_deleted(connection: Connection, run_id: int, versions: list[int]) -> None:
    connection.execute(
        "UPDATE trainers_checkpoint SET deleted_at = now() "
        "WHERE run_id = %s AND version = ANY(%s) AND deleted_at IS NULL",
        (run_id, versions),
    )


def try_lock_update(connection: Connection, run_id: int) -> bool:
    """One engine of the run takes new weights at a time. Held by this connection until `unlock_update`."""
    row = connection.execute("SELECT pg_try_advisory_lock(hashtext('gyre_weight_update'), %s)", (run_id,)).fetchone()
    return bool(row and row[0])


def unlock_update(connection: Connection, run_id: int) -> None:
    connection.execute("SELECT pg_advisory_unlock(hashtext('gyre_weight_update'), %s)", (run_id,))
