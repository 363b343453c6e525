"""Rows as Parquet, JSON Lines or CSV, written piece by piece, and read back.

Each writer takes rows and gives bytes to a sink as soon as it has a block of them: nothing holds a whole table.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, BinaryIO, Protocol

import numpy as np
import orjson

from agents.exports.tables import Column, Table

#: A block is written after so many rows, or so many array items.
BLOCK_ROWS = 1_000
BLOCK_ITEMS = 4_000_000
#: Longest line that is read: an execution of the longest context takes a tenth of it.
MAX_LINE_BYTES = 256 << 20

#: A piece of a stream is passed on when it is so large, or so old.
PIECE_BYTES = 1 << 16
PIECE_S = 0.25
_LINE = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE

Row = dict[str, Any]
Sink = Callable[[bytes], Any]


class Writer(Protocol):
    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


class ParquetWriter:
    """One row group per block, zstd."""

    def __init__(self, table: Table, sink: Sink) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._table, self._schema = table, schema_of(table)
        self._rows: list[Row] = []
        self._items = 0
        self._file = pa.PythonFile(_Forward(sink), mode="w")
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")

    def write(self, row: Row) -> None:
        self._rows.append(row)
        self._items += sum(len(value) for value in row.values() if isinstance(value, np.ndarray))
        if len(self._rows) >= BLOCK_ROWS or self._items >= BLOCK_ITEMS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()
        self._file.close()

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._rows:
            return
        columns = [
            pa.array([_to_arrow(column, row.get(column.name)) for row in self._rows], self._schema.field(i).type)
            for i, column in enumerate(self._table.columns)
        ]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
        self._rows, self._items = [], 0


class JsonLinesWriter:
    def __init__(self, table: Table, sink: Sink) -> None:
        self._table, self._sink = table, sink

    def write(self, row: Row) -> None:
        self._sink(_json_line({column.name: row.get(column.name) for column in self._table.columns}))

    def close(self) -> None:
        pass


class CsvWriter:
    """With a header. A text that a spreadsheet would take for a formula begins with an apostrophe."""

    def __init__(self, table: Table, sink: Sink) -> None:
        self._table, self._sink = table, sink
        self._line([column.name for column in table.columns])

    def write(self, row: Row) -> None:
        self._line([_to_cell(row.get(column.name)) for column in self._table.columns])

    def close(self) -> None:
        pass

    def _line(self, cells: list[str]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\r\n").writerow(cells)
        self._sink(text.getvalue().encode("utf-8", "replace"))


WRITERS: dict[str, Callable[[Table, Sink], Writer]] = {
    "parquet": ParquetWriter,
    "jsonl": JsonLinesWriter,
    "csv": CsvWriter,
}
CONTENT_TYPES = {
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/jsonl; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
}


def encoded(table: Table, rows: Iterable[Row], extension: str) -> Iterator[bytes]:
    """The table as a stream of bytes; what can be known of it is there at once."""
    waiting: list[bytes] = []
    writer = WRITERS[extension](table, waiting.append)
    due = 0.0
    if waiting:  # a header
        yield _taken(waiting)
    for row in rows:
        writer.write(row)
        if waiting and (time.monotonic() >= due or sum(map(len, waiting)) >= PIECE_BYTES):
            yield _taken(waiting)
            due = time.monotonic() + PIECE_S
    writer.close()
    if waiting:
        yield _taken(waiting)


def _taken(waiting: list[bytes]) -> bytes:
    piece = b"".join(waiting)
    waiting.clear()
    return piece


def read(table: Table, file: BinaryIO, name: str) -> Iterator[Row]:
    """Rows of one file, as the exporter gave them: arrays for token columns. Raises ValueError for another content."""
    if name.endswith(".jsonl"):
        yield from _read_json_lines(table, file)
    else:
        yield from _read_parquet(table, file)


def _read_json_lines(table: Table, file: BinaryIO) -> Iterator[Row]:
    lines = iter(lambda: file.readline(MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"line {number} is longer than {MAX_LINE_BYTES >> 20} MiB")
        try:
            values = json.loads(line)
            row = {column.name: _from_json(column, values[column.name]) for column in table.columns}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"line {number}: {type(error).__name__}: {error}"[:400]) from error
        yield row


def _read_parquet(table: Table, file: BinaryIO) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as found:
            wanted = schema_of(table)
            if missing := sorted(set(wanted.names) - set(found.schema_arrow.names)):
                raise ValueError(f"it lacks the columns {', '.join(missing)}")
            for batch in found.iter_batches(batch_size=256, columns=wanted.names):
                for row in batch.to_pylist():
                    try:
                        yield {column.name: _from_arrow(column, row[column.name]) for column in table.columns}
                    except (ValueError, TypeError, OverflowError, RecursionError) as error:
                        raise ValueError(f"{type(error).__name__}: {error}"[:400]) from error
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)[:400]) from error


def schema_of(table: Table) -> Any:
    """The table's Arrow schema."""
    import pyarrow as pa

    types = {
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "text": pa.string(),
        "time": pa.timestamp("us", "UTC"),
        "json": pa.string(),
        "int32s": pa.list_(pa.int32()),
        "float32s": pa.list_(pa.float32()),
        "bools": pa.list_(pa.bool_()),
        "texts": pa.list_(pa.string()),
        "spans": pa.list_(pa.list_(pa.int64())),
        "exclusions": pa.list_(pa.struct([("call", pa.int64()), ("reason", pa.string())])),
        "candidates": pa.list_(pa.struct([("call", pa.int64()), ("count", pa.int64()), ("probability", pa.float64())])),
    }
    return pa.schema([pa.field(column.name, types[column.kind]) for column in table.columns])


class _Forward:
    """What Arrow writes to, passed on: a file that only grows."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._position = 0
        self.closed = False

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._sink(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


def _json_line(values: Row) -> bytes:
    """orjson writes arrays of numbers tens of times faster; what it refuses (half a surrogate pair, an integer of more
    than 64 bits) the standard library writes."""
    try:
        return orjson.dumps({name: _for_orjson(value) for name, value in values.items()}, option=_LINE)
    except orjson.JSONEncodeError:
        plain = {name: _to_json(value) for name, value in values.items()}
        return json.dumps(plain, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


def _for_orjson(value: Any) -> Any:
    if isinstance(value, np.ndarray):  # a float32 with all the digits that it has as a float64, like everywhere else
        return np.ascontiguousarray(value, np.float64 if value.dtype == np.float32 else None)
    return value


def _to_arrow(column: Column, value: Any) -> Any:
    if value is not None and column.kind == "json":
        return json.dumps(_to_json(value), ensure_ascii=False, allow_nan=False)
    return value


def _from_arrow(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column.kind == "json":
        return json.loads(value)
    return _array(column, value)


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype == np.float32:
            return [float(item) if np.isfinite(item) else None for item in value]
        return value.tolist()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _to_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    return value


def _from_json(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column.kind == "time":
        return datetime.fromisoformat(value)
    if column.kind == "float":
        return float(value)
    if column.kind == "float32s":
        value = [np.nan if item is None else item for item in value]
    return _array(column, value)


def _array(column: Column, value: Any) -> Any:
    dtype = {"int32s": np.int32, "float32s": np.float32, "bools": np.bool_}.get(column.kind)
    return value if dtype is None else np.array(value, dtype)


def _to_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime):
        return value.isoformat()
    text = value if isinstance(value, str) else json.dumps(_to_json(value), ensure_ascii=False)
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
