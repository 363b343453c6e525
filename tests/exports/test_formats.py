"""The tables of an export: documented column by column, streamed, and safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from agents.exports import formats
from agents.exports.formats import encoded, read, schema_of
from agents.exports.rows import count_of, rows_of
from agents.exports.tables import CSV_TABLES, KINDS, TABLES
from agents.web.executions import Filters
from gyreweb.env import REPO_ROOT
from tests.processor.records import Made


def table(made: Made, name: str, extension: str, **filters: Any) -> bytes:
    return b"".join(encoded(TABLES[name], rows_of(name, made.run, Filters(**filters)), extension))


def test_the_documentation_has_every_table_and_column_and_no_other() -> None:
    text = (REPO_ROOT / "docs" / "export-format.md").read_text()
    for name, found in TABLES.items():
        part = text.split(f"## `{name}`", 1)[1].split("\n## ", 1)[0]
        described = re.findall(r"^\| `([a-z_0-9]+)` \| ([a-z0-9]+) \| (.+) \|$", part, re.MULTILINE)
        assert described == [(c.name, c.kind, c.description) for c in found.columns], name
        assert found.description in part
    assert {column.kind for found in TABLES.values() for column in found.columns} <= set(KINDS)


@pytest.mark.parametrize("name", TABLES)
def test_json_lines_and_parquet_hold_the_same_rows(made: Made, name: str, tmp_path: Path) -> None:
    rows = {}
    for extension in ("parquet", "jsonl"):
        path = tmp_path / f"t.{extension}"
        path.write_bytes(table(made, name, extension))
        with path.open("rb") as file:
            rows[extension] = [
                {key: value.tobytes() if isinstance(value, np.ndarray) else value for key, value in row.items()}
                for row in read(TABLES[name], file, path.name)
            ]
    assert rows["parquet"] == rows["jsonl"]
    assert rows["parquet"]
    assert pq.read_schema(tmp_path / "t.parquet") == schema_of(TABLES[name])


def test_trajectories_are_ready_for_a_trainer(made: Made) -> None:
    rows = [json.loads(line) for line in table(made, "trajectories", "jsonl").splitlines()]
    trained = [row for row in rows if row["num_targets"]]
    assert len(trained) == 4
    for row in trained:
        assert len(row["ids"]) == len(row["target_mask"]) == len(row["logprobs"]) == row["num_tokens"]
        assert sum(row["target_mask"]) == row["num_targets"]
        positions = [i for start, end in row["targets"] for i in range(start, end)]
        assert [i for i, hit in enumerate(row["target_mask"]) if hit] == positions
        assert all(row["versions"][i] >= 0 and row["samplers"][i] >= 0 for i in positions)
    weights: dict[int, float] = {}
    for row in trained:
        weights[row["index"]] = weights.get(row["index"], 0) + row["weight"] * row["num_targets"]
    assert weights == {0: pytest.approx(1), 1: pytest.approx(1)}
    (dummy,) = [row for row in rows if not row["num_targets"]]
    assert (dummy["num_tokens"], dummy["ids"], dummy["leaf_call"], dummy["reward"]) == (0, [], None, 0.0)


def test_a_table_is_written_a_block_at_a_time(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "BLOCK_ROWS", 5)
    pieces = list(encoded(TABLES["calls"], rows_of("calls", made.run, Filters()), "parquet"))
    file = pq.ParquetFile(io.BytesIO(b"".join(pieces)))
    assert (file.num_row_groups, file.metadata.num_rows) == (7, 34)


@pytest.mark.parametrize(("extension", "header"), [("parquet", b"PAR1"), ("csv", b"name,split,kind,digest\r\n")])
def test_a_header_is_there_before_the_first_row_is_read(extension: str, header: bytes) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        raise AssertionError("a row was read")
        yield

    assert next(encoded(TABLES["tasks"], rows(), extension)) == header


def test_the_first_row_is_passed_on_at_once_and_the_others_in_larger_pieces() -> None:
    row = {"name": "t", "split": "train", "kind": "", "digest": "d"}
    pieces = list(encoded(TABLES["tasks"], [row] * 5_000, "jsonl"))
    assert pieces[0] == b'{"name":"t","split":"train","kind":"","digest":"d"}\n'
    assert len(pieces) < 20
    assert b"".join(pieces) == pieces[0] * 5_000


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_counted_without_reading_them(made: Made, name: str) -> None:
    for filters in (Filters(), Filters(outcome="unresolved"), Filters(kind="evaluation")):
        assert count_of(name, made.run, filters) == len(list(rows_of(name, made.run, filters)))


def test_values_that_the_fast_writer_refuses_are_written_all_the_same() -> None:
    row = {"name": "half a \ud800 pair", "split": "train", "kind": 2**70, "digest": None}
    (line,) = encoded(TABLES["tasks"], [row], "jsonl")
    assert json.loads(line) == row | {"name": "half a ? pair"}


def test_text_that_a_spreadsheet_would_run_is_quoted(made: Made) -> None:
    evil = ['=cmd|"/c calc"!A1', "+1", "-1", "@SUM(A1)", "\tx", "\r=1", "plain", "a=b"]
    for execution, text in zip(made.run.executions.order_by("pk"), evil, strict=False):
        execution.reason = text
        execution.save(update_fields=["reason"])
    rows = list(csv.DictReader(io.StringIO(table(made, "executions", "csv").decode(), newline="")))
    assert [row["reason"] for row in rows] == ["'" + text for text in evil[:6]] + ["plain"]
    assert {row["reward"] for row in rows} == {"1.0", "0.25", "0.0", "", "0.5"}
    assert "-" not in {row["advantage"][:1] for row in rows if row["advantage"].startswith("'")}
    assert frozenset({"calls", "trajectories"}) & CSV_TABLES == frozenset()


def test_filters_choose_the_rows_of_every_table(made: Made) -> None:
    few = [json.loads(line) for line in table(made, "calls", "jsonl", outcome="unresolved").splitlines()]
    assert {row["index"] for row in few} == {3}
    groups = [json.loads(line) for line in table(made, "groups", "jsonl", kind="evaluation").splitlines()]
    assert [row["group_kind"] for row in groups] == ["evaluation"]
    some = [json.loads(line) for line in table(made, "executions", "jsonl", reward_from=0.5).splitlines()]
    assert {row["reward"] for row in some} == {1.0, 0.5}
