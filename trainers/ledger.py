"""The ledger of a batch, for the worker processes: claims, hand-ins, counts (docs/algorithms.md §11).

Plain psycopg, one connection per caller in autocommit mode; every function that writes is one transaction. Laws:

* a micro-step is counted by exactly one hand-in, or by none;
* a claim belongs to one cell's epoch and dies only with that epoch: other cells may take it once the cell is lost,
  stopped or launched again, and then the old claimant's hand-in is refused as a whole;
* an older epoch can neither claim, offer nor count.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from agents import eventlog
from trainers.transactions import in_one_transaction

Connection = psycopg.Connection[Any]


class Fenced(RuntimeError):
    """This cell's epoch is over, or what it claimed is no longer its own. Nothing was written."""


@dataclass(frozen=True)
class CellEpoch:
    """Who acts: a cell of a run in one epoch."""

    run_id: int
    cell_index: int
    epoch: int


@dataclass(frozen=True)
class OpenBatch:
    id: int
    number: int
    version: int
    sealed: bool
    num_votes: int


@dataclass(frozen=True)
class Claim:
    """A claimed micro-step. `payload` is decoded by trainers.core.payload."""

    id: int
    number: int
    payload: bytes


@dataclass(frozen=True)
class Offer:
    """A satellite's gradient sum that waits in its slot of the core's memory."""

    id: int
    cell_index: int
    epoch: int
    sha256: str
    num_micro_steps: int
    slot: int


@dataclass(frozen=True)
class SteppedBatch:
    """A batch whose step was committed; `micro_steps` are row ids, by number."""

    num_votes: int
    micro_steps: tuple[int, ...]


@dataclass(frozen=True)
class Progress:
    num_micro_steps: int
    num_unclaimed: int
    num_uncounted: int


#: True where a claim (alias m) still belongs to a live epoch of its cell.
_CLAIM_IS_LIVE = """EXISTS (
    SELECT 1 FROM scheduler_cell c
    WHERE c.run_id = %(run_id)s AND c.index = m.cell_index AND c.epoch = m.epoch AND c.role NOT IN ('lost', 'stopped')
)"""


def hold_epoch(connection: Connection, cell: CellEpoch) -> None:
    """Keep the cell's row as it is until the transaction ends. Raises Fenced."""
    row = connection.execute(
        "SELECT 1 FROM scheduler_cell WHERE run_id = %s AND index = %s AND epoch = %s AND role <> 'lost' FOR SHARE",
        (cell.run_id, cell.cell_index, cell.epoch),
    ).fetchone()
    if row is None:
        raise Fenced(f"epoch {cell.epoch} of cell {cell.cell_index} is over")


def open_batch(connection: Connection, run_id: int) -> OpenBatch | None:
    row = connection.execute(
        "SELECT id, number, version, state, num_votes FROM trainers_batch "
        "WHERE run_id = %s AND state IN ('open', 'sealed')",
        (run_id,),
    ).fetchone()
    return None if row is None else OpenBatch(row[0], row[1], row[2], row[3] == "sealed", row[4])


def stepped_batch(connection: Connection, run_id: int, number: int) -> SteppedBatch | None:
    rows = connection.execute(
        "SELECT b.num_votes, m.id FROM trainers_batch b JOIN trainers_microstep m ON m.batch_id = b.id "
        "WHERE b.run_id = %s AND b.number = %s AND b.state = 'stepped' ORDER BY m.number",
        (run_id, number),
    ).fetchall()
    return SteppedBatch(rows[0][0], tuple(row[1] for row in rows)) if rows else None


def payload(connection: Connection, micro_step_id: int) -> bytes:
    """Empty once retention has deleted it."""
    row = connection.execute("SELECT payload FROM trainers_microstep WHERE id = %s", (micro_step_id,)).fetchone()
    return b"" if row is None else bytes(row[0])


def progress(connection: Connection, run_id: int, batch_id: int) -> Progress:
    row = connection.execute(
        f"""
        SELECT count(*),
               count(*) FILTER (WHERE hand_in_id IS NULL AND (cell_index IS NULL OR NOT {_CLAIM_IS_LIVE})),
               count(*) FILTER (WHERE hand_in_id IS NULL)
        FROM trainers_microstep m WHERE batch_id = %(batch_id)s
        """,
        {"batch_id": batch_id, "run_id": run_id},
    ).fetchone()
    assert row is not None
    return Progress(*row)


@in_one_transaction
def claim(connection: Connection, cell: CellEpoch, batch: OpenBatch, limit: int) -> list[Claim]:
    """Claim up to `limit` micro-steps, lowest numbers first, among those nobody alive has claimed. Raises Fenced."""
    hold_epoch(connection, cell)
    rows = connection.execute(
        f"""
        WITH picked AS MATERIALIZED (  -- once: a join may read a subquery again for each row, and each time pick others
            SELECT m.id FROM trainers_microstep m
            JOIN trainers_batch b ON b.id = m.batch_id AND b.state IN ('open', 'sealed')
            WHERE m.batch_id = %(batch_id)s AND m.hand_in_id IS NULL
              AND (m.cell_index IS NULL OR NOT {_CLAIM_IS_LIVE})
            ORDER BY m.number LIMIT %(limit)s FOR NO KEY UPDATE OF m SKIP LOCKED
        )
        UPDATE trainers_microstep t SET cell_index = %(cell_index)s, epoch = %(epoch)s, claimed_at = now()
        FROM picked WHERE t.id = picked.id
        RETURNING t.id, t.number, t.payload
        """,
        {
            "run_id": cell.run_id,
            "cell_index": cell.cell_index,
            "epoch": cell.epoch,
            "batch_id": batch.id,
            "limit": limit,
        },
    ).fetchall()
    claims = sorted((Claim(row[0], row[1], bytes(row[2])) for row in rows), key=lambda c: c.number)
    if claims:
        numbers = {"batch": batch.number, "cell": cell.cell_index, "micro_steps": [c.number for c in claims]}
        eventlog.append(connection, cell.run_id, "micro_step_claimed", numbers)
    return claims


def release(connection: Connection, cell: CellEpoch, batch_id: int) -> int:
    """Give back this epoch's uncounted claims: their gradients were discarded. Returns how many."""
    done = connection.execute(
        "UPDATE trainers_microstep SET cell_index = NULL, epoch = NULL, claimed_at = NULL "
        "WHERE batch_id = %s AND cell_index = %s AND epoch = %s AND hand_in_id IS NULL",
        (batch_id, cell.cell_index, cell.epoch),
    )
    return done.rowcount


def record_metrics(connection: Connection, micro_step_id: int, metrics: dict[str, Any]) -> None:
    connection.execute("UPDATE trainers_microstep SET metrics = %s WHERE id = %s", (json.dumps(metrics), micro_step_id))


@in_one_transaction
def offer(
    connection: Connection, cell: CellEpoch, batch_id: int, hand_in_id: UUID, sha256: str, num: int, slot: int
) -> None:
    """A satellite offers the sum of `num` micro-steps that it has written to its slot. Idempotent. Raises Fenced."""
    hold_epoch(connection, cell)
    connection.execute(
        """
        INSERT INTO trainers_handin
            (batch_id, hand_in_id, cell_index, epoch, sha256, num_micro_steps, state, slot, error, created_at)
        VALUES (%s, %s, %s, %s, %s, %s, 'offered', %s, '', now()) ON CONFLICT (hand_in_id) DO NOTHING
        """,
        (batch_id, hand_in_id, cell.cell_index, cell.epoch, sha256, num, slot),
    )


def report_failed_write(
    connection: Connection, cell: CellEpoch, batch_id: int, hand_in_id: UUID, slot: int, error: str
) -> None:
    """A write to the slot failed or timed out: late bytes may still land, so the core must provide another slot."""
    connection.execute(
        """
        INSERT INTO trainers_handin
            (batch_id, hand_in_id, cell_index, epoch, sha256, num_micro_steps, state, slot, error, created_at)
        VALUES (%s, %s, %s, %s, '', 0, 'refused', %s, %s, now())
        """,
        (batch_id, hand_in_id, cell.cell_index, cell.epoch, slot, error),
    )


def hand_in_state(connection: Connection, hand_in_id: UUID) -> tuple[str, str]:
    """(state, error) of a hand-in; ('refused', …) when it is gone."""
    row = connection.execute("SELECT state, error FROM trainers_handin WHERE hand_in_id = %s", (hand_in_id,)).fetchone()
    return ("refused", "the hand-in is gone") if row is None else (row[0], row[1])


def offers(connection: Connection, batch_id: int) -> list[Offer]:
    rows = connection.execute(
        "SELECT id, cell_index, epoch, sha256, num_micro_steps, slot FROM trainers_handin "
        "WHERE batch_id = %s AND state = 'offered' ORDER BY id",
        (batch_id,),
    ).fetchall()
    return [Offer(*row) for row in rows]


def failed_slots(connection: Connection, batch_id: int) -> set[tuple[int, int, int]]:
    """(cell_index, epoch, slot) of writes that failed in this batch."""
    rows = connection.execute(
        "SELECT cell_index, epoch, slot FROM trainers_handin WHERE batch_id = %s AND state = 'refused' AND slot > 0",
        (batch_id,),
    ).fetchall()
    return {(row[0], row[1], row[2]) for row in rows}


def refuse(connection: Connection, offer_id: int, error: str) -> bool:
    """Refuse an offer that is not yet counted. False: it was no longer on offer."""
    done = connection.execute(
        "UPDATE trainers_handin SET state = 'refused', error = %s WHERE id = %s AND state = 'offered'",
        (error, offer_id),
    )
    return done.rowcount == 1


def withdraw(connection: Connection, hand_in_id: UUID) -> bool:
    """A satellite takes its offer back, because the core is gone. False: it was counted or refused already."""
    done = connection.execute(
        "UPDATE trainers_handin SET state = 'refused', error = 'withdrawn' WHERE hand_in_id = %s AND state = 'offered'",
        (hand_in_id,),
    )
    return done.rowcount == 1


@in_one_transaction
def count(connection: Connection, core: CellEpoch, batch: OpenBatch, offered: Offer) -> None:
    """The core has verified the sum and adds it when this returns: its micro-steps are counted, exactly once.

    Raises Fenced when the offer is no longer open, or the satellite's claims are not exactly those it summed.
    """
    hold_epoch(connection, core)
    hold_epoch(connection, CellEpoch(core.run_id, offered.cell_index, offered.epoch))
    done = connection.execute(
        "UPDATE trainers_handin SET state = 'counted' WHERE id = %s AND state = 'offered'", (offered.id,)
    )
    if done.rowcount != 1:
        raise Fenced(f"hand-in {offered.id} is no longer on offer")
    counted = connection.execute(
        "UPDATE trainers_microstep SET hand_in_id = %s, counted_at = now() "
        "WHERE batch_id = %s AND cell_index = %s AND epoch = %s AND hand_in_id IS NULL",
        (offered.id, batch.id, offered.cell_index, offered.epoch),
    )
    if counted.rowcount != offered.num_micro_steps:
        raise Fenced(
            f"cell {offered.cell_index} summed {offered.num_micro_steps} micro-steps but holds {counted.rowcount}"
        )
    _handed_in(connection, core.run_id, batch, offered.cell_index, offered.num_micro_steps)


@in_one_transaction
def count_own(
    connection: Connection, core: CellEpoch, batch: OpenBatch, hand_in_id: UUID, claims: Sequence[Claim]
) -> None:
    """The core has added `claims` to its own sum: count them. Raises Fenced, after which its sum is not valid."""
    hold_epoch(connection, core)
    row = connection.execute(
        """
        INSERT INTO trainers_handin
            (batch_id, hand_in_id, cell_index, epoch, sha256, num_micro_steps, state, slot, error, created_at)
        VALUES (%s, %s, %s, %s, '', %s, 'counted', 0, '', now()) RETURNING id
        """,
        (batch.id, hand_in_id, core.cell_index, core.epoch, len(claims)),
    ).fetchone()
    assert row is not None
    counted = connection.execute(
        "UPDATE trainers_microstep SET hand_in_id = %s, counted_at = now() "
        "WHERE id = ANY(%s) AND cell_index = %s AND epoch = %s AND hand_in_id IS NULL",
        (row[0], [c.id for c in claims], core.cell_index, core.epoch),
    )
    if counted.rowcount != len(claims):
        raise Fenced("micro-steps that the core summed are no longer its own")
    _handed_in(connection, core.run_id, batch, core.cell_index, len(claims))


def _handed_in(connection: Connection, run_id: int, batch: OpenBatch, cell_index: int, num: int) -> None:
    payload = {"batch": batch.number, "cell": cell_index, "num_micro_steps": num}
    eventlog.append(connection, run_id, "gradient_handed_in", payload)


@in_one_transaction
def reset_open_batch(connection: Connection, core: CellEpoch) -> int:
    """A core that starts from a checkpoint has no sums: all micro-steps of the open batch return to the ledger.

    Returns how many had been claimed or counted. Raises Fenced.
    """
    hold_epoch(connection, core)
    batch = open_batch(connection, core.run_id)
    if batch is None:
        return 0
    returned = connection.execute(
        "UPDATE trainers_microstep SET cell_index = NULL, epoch = NULL, claimed_at = NULL, hand_in_id = NULL, "
        "counted_at = NULL WHERE batch_id = %s AND cell_index IS NOT NULL",
        (batch.id,),
    )
    connection.execute(
        "UPDATE trainers_handin SET state = 'reset', error = 'the core started again' "
        "WHERE batch_id = %s AND state IN ('offered', 'counted')",
        (batch.id,),
    )
    return returned.rowcount


def batch_metrics(connection: Connection, batch_id: int) -> list[dict[str, Any]]:
    rows = connection.execute(
        "SELECT metrics FROM trainers_microstep WHERE batch_id = %s ORDER BY number", (batch_id,)
    ).fetchall()
    return [row[0] for row in rows]
