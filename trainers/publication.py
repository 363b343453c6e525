"""What the core publishes: weight versions, checkpoints, the step (docs/algorithms.md §11). Plain psycopg."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents import eventlog
from trainers.ledger import CellEpoch, Connection, Fenced, OpenBatch, hold_epoch
from trainers.transactions import in_one_transaction


@dataclass(frozen=True)
class StepCommit:
    """Everything that one optimizer step publishes at once."""

    batch_id: int
    version: int
    checkpoint_path: str
    checkpoint_sha256: str
    checkpoint_bytes: int
    cursor: dict[str, Any]
    weights_sha256: str
    manifest: dict[str, Any]
    metrics: dict[str, Any]


@in_one_transaction
def publish_first(connection: Connection, core: CellEpoch, commit: StepCommit) -> None:
    """Version 0: its checkpoint and weights, before any step. Raises Fenced."""
    hold_epoch(connection, core)
    _insert_checkpoint(connection, core.run_id, commit)
    _upsert_weights(connection, core, commit)


@in_one_transaction
def republish(
    connection: Connection, core: CellEpoch, version: int, weights_sha256: str, manifest: dict[str, Any]
) -> None:
    """A restarted core offers a version again: same weights, new address. Raises Fenced."""
    hold_epoch(connection, core)
    _upsert_weights_row(connection, core, version, weights_sha256, manifest)


@in_one_transaction
def publish_rebuilt(
    connection: Connection, core: CellEpoch, commit: StepCommit, from_version: int, problems: Sequence[str]
) -> None:
    """The run's version was made again from an older checkpoint: checkpoint and weights anew. Raises Fenced."""
    hold_epoch(connection, core)
    _insert_checkpoint(connection, core.run_id, commit)
    _upsert_weights(connection, core, commit)
    payload = {"version": commit.version, "from_version": from_version, "problems": list(problems)}
    eventlog.append(connection, core.run_id, "checkpoint_rebuilt", payload)


@in_one_transaction
def commit_step(connection: Connection, core: CellEpoch, batch: OpenBatch, commit: StepCommit) -> None:
    """The durable checkpoint becomes version v + 1, in one transaction with everything that follows from it.

    Raises Fenced when the epoch is over, the batch is not sealed and fully counted, or the run is at another version.
    """
    hold_epoch(connection, core)
    stepped = connection.execute(
        """
        UPDATE trainers_batch SET state = 'stepped', stepped_at = now(), metrics = metrics || %(metrics)s::jsonb
        WHERE id = %(batch)s AND state = 'sealed' AND version = %(version)s - 1 AND NOT EXISTS (
            SELECT 1 FROM trainers_microstep WHERE batch_id = %(batch)s AND hand_in_id IS NULL)
        """,
        {"batch": batch.id, "version": commit.version, "metrics": json.dumps(commit.metrics)},
    )
    raised = connection.execute(
        "UPDATE agents_run SET version = %s WHERE id = %s AND version = %s",
        (commit.version, core.run_id, commit.version - 1),
    )
    if stepped.rowcount != 1 or raised.rowcount != 1:
        raise Fenced(f"batch {batch.number} cannot step to version {commit.version}")
    _insert_checkpoint(connection, core.run_id, commit)
    _upsert_weights(connection, core, commit)
    connection.execute(
        "UPDATE agents_group SET state = 'consumed' WHERE run_id = %s AND kind = 'training' "
        "AND batch = %s AND state = 'admitted'",
        (core.run_id, batch.number),
    )
    payload = {"batch": batch.number, "version": commit.version, **commit.metrics}
    eventlog.append(connection, core.run_id, "step_committed", payload)
    published = {"version": commit.version, "sha256": commit.weights_sha256}
    eventlog.append(connection, core.run_id, "weights_published", published)


def _insert_checkpoint(connection: Connection, run_id: int, commit: StepCommit) -> None:
    connection.execute(
        """
        INSERT INTO trainers_checkpoint (run_id, version, path, sha256, num_bytes, cursor, created_at, deleted_at)
        VALUES (%s, %s, %s, %s, %s, %s, now(), NULL)
        ON CONFLICT (run_id, version) DO UPDATE SET path = EXCLUDED.path, sha256 = EXCLUDED.sha256,
            num_bytes = EXCLUDED.num_bytes, cursor = EXCLUDED.cursor, created_at = now(), deleted_at = NULL
        """,
        (
            run_id,
            commit.version,
            commit.checkpoint_path,
            commit.checkpoint_sha256,
            commit.checkpoint_bytes,
            json.dumps(commit.cursor),
        ),
    )


def _upsert_weights(connection: Connection, core: CellEpoch, commit: StepCommit) -> None:
    _upsert_weights_row(connection, core, commit.version, commit.weights_sha256, commit.manifest)


def _upsert_weights_row(
    connection: Connection, core: CellEpoch, version: int, sha256: str, manifest: dict[str, Any]
) -> None:
    connection.execute(
        """
        INSERT INTO trainers_weightversion (run_id, version, sha256, cell_index, epoch, manifest, published_at)
        VALUES (%s, %s, %s, %s, %s, %s, now())
        ON CONFLICT (run_id, version) DO UPDATE SET sha256 = EXCLUDED.sha256, cell_index = EXCLUDED.cell_index,
            epoch = EXCLUDED.epoch, manifest = EXCLUDED.manifest, published_at = now()
        """,
        (core.run_id, version, sha256, core.cell_index, core.epoch, json.dumps(manifest)),
    )
