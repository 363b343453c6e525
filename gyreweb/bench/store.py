"""What a token costs in Postgres, and how fast tokens go in and out (docs/proxy.md, "Storage").

A million sampled tokens with their log-probabilities, as the tree's nodes are stored. `bytes_per_pair` is what their
rows take, every column and row header; `disk_bytes_per_pair` is the size of the table on disk, with indexes and with
the pages that Postgres leaves partly empty (a value of 10 kB ends in a TOAST chunk that is mostly air). Rates are
those of the product's own way in and out (encode and insert, select and decode), against COPY of the same bytes into
and out of the same Postgres.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import psycopg
from django.db import transaction

from agents.core.codec import Float32s, Int32s, NodeTokens, decode_node, encode_node
from agents.core.roles import Role
from agents.models import Execution, Node
from gyreweb.bench import scratch, stage
from gyreweb.bench.figures import Figure
from gyreweb.bench.synthetic import Source
from gyreweb.bench.tree import interleaved

NUM_PAIRS = 1_000_000
PAIRS_PER_NODE = 2_000
SHORT_PAIRS_PER_NODE = 250
REPEATS = 5


class Pairs:
    """Ids with their log-probabilities, cut into nodes."""

    def __init__(self, count: int, per_node: int, seed: int = 1) -> None:
        source = Source(seed)
        ids, logprobs = source.words(count), source.logprobs(count)
        self.nodes = [
            _node(ids[start : start + per_node], logprobs[start : start + per_node])
            for start in range(0, count, per_node)
        ]

    def write(self, execution: Execution) -> None:
        """As finishing an execution does."""
        with transaction.atomic():
            Node.objects.filter(execution=execution).delete()
            Node.objects.bulk_create(
                Node(
                    execution=execution, attempt=1, number=number, parent_number=number - 1 if number else None,
                    depth=0, num_tokens=len(node.ids), num_sampled=len(node.ids), call_number=number, role=Role.MAIN,
                    tokens=encode_node(node),
                )
                for number, node in enumerate(self.nodes)
            )  # fmt: skip

    def read(self, execution: Execution) -> int:
        """Every token of the execution, decoded; their number."""
        rows = Node.objects.with_tokens().filter(execution=execution).order_by("number")
        return sum(len(decode_node(row.tokens).ids) for row in rows)


def run() -> Mapping[str, Figure]:
    """Figures of `manage.py bench store`."""
    with scratch.database() as url:
        stage.executions("http://127.0.0.1:9", 2)
        long_one, short_one = Execution.objects.order_by("pk")
        pairs, short = Pairs(NUM_PAIRS, PAIRS_PER_NODE), Pairs(NUM_PAIRS // 4, SHORT_PAIRS_PER_NODE)
        with psycopg.connect(url, autocommit=True) as connection:
            short.write(short_one)
            short_bytes = _row_bytes(connection)
            Node.objects.all().delete()
            connection.execute("VACUUM FULL agents_node")
            empty = _size(connection)
            pairs.write(long_one)
            row_bytes, disk_bytes = _row_bytes(connection), _size(connection) - empty
            rows = _copied_out(connection)
            payload_bytes = sum(len(encode_node(node)) for node in pairs.nodes)
            connection.execute("CREATE TABLE copied (LIKE agents_node)")
            print(f"{NUM_PAIRS:,} pairs in {len(pairs.nodes)} nodes, {disk_bytes:,} bytes on disk", file=sys.stderr)
            write, copy_in, read, copy_out = interleaved(
                REPEATS,
                lambda: pairs.write(long_one),
                lambda: _copy_in(connection, rows),
                lambda: pairs.read(long_one),
                lambda: _copied_out(connection),
            )
            if pairs.read(long_one) != NUM_PAIRS:
                raise AssertionError("what was written is not what is read")
    return {
        "bytes_per_pair": Figure.against(row_bytes / NUM_PAIRS, 8.0, "bytes"),
        "disk_bytes_per_pair": Figure.against(disk_bytes / NUM_PAIRS, 8.0, "bytes"),
        "encoded_bytes_per_pair": Figure.against(payload_bytes / NUM_PAIRS, 8.0, "bytes"),
        "bytes_per_pair_in_short_nodes": Figure.against(short_bytes / (NUM_PAIRS // 4), 8.0, "bytes"),
        "write": _rate(write, copy_in),
        "read": _rate(read, copy_out),
    }


def _rate(seconds: list[float], copy_seconds: list[float]) -> Figure:
    """Pairs per second of the best round, against COPY's best."""
    return Figure.against(NUM_PAIRS / min(seconds), NUM_PAIRS / min(copy_seconds), "pairs/s")


def _node(ids: Int32s, logprobs: Float32s) -> NodeTokens:
    count = len(ids)
    versions, samplers = np.zeros(count, np.int32), np.zeros(count, np.int32)
    return NodeTokens(ids, np.ones(count, np.bool_), logprobs, versions, samplers)


def _row_bytes(connection: psycopg.Connection[Any]) -> int:
    """Rows with their headers, values kept out of line included."""
    row = connection.execute("SELECT sum(pg_column_size(n.*)) FROM agents_node n").fetchone()
    assert row is not None
    return int(row[0])


def _size(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_total_relation_size('agents_node')").fetchone()
    assert row is not None
    return int(row[0])


def _copied_out(connection: psycopg.Connection[Any]) -> bytes:
    with connection.cursor().copy("COPY agents_node TO STDOUT (FORMAT BINARY)") as copy:
        return b"".join(bytes(data) for data in copy)


def _copy_in(connection: psycopg.Connection[Any], rows: bytes) -> None:
    connection.execute("TRUNCATE copied")
    with connection.cursor().copy("COPY copied FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(rows)
