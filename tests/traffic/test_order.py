"""Captures whose lines do not stand in the order of their numbers are read in that order, and it is said."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.proxy.traffic.order import Order
from agents.proxy.traffic.reading import read
from tests.traffic.captures import Lines, interleaved, load, played, with_late_responses

SAID = "not in the order of their seq"


def _shuffled(lines: Lines) -> Lines:
    return random.Random(5).sample(lines, len(lines))


def _answers_first(lines: Lines) -> Lines:
    return sorted(lines, key=lambda line: line["kind"] == "request")


def _rows(lines: Lines, folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any], list[str]]:
    found = played(lines, folder)
    return [row.public() for row in found.rows], found.totals.public(), found.notes


@pytest.mark.parametrize("change", [lambda lines: lines[::-1], _shuffled, _answers_first])
@pytest.mark.parametrize("name", ["claude-code/compactions", "codex/compactions", "opencode/basic"])
def test_a_capture_in_another_order_gives_the_same(name: str, change: Callable[[Lines], Lines], tmp_path: Path) -> None:
    rows, totals, notes = _rows(load(name), tmp_path)
    assert notes == []
    assert any(row["parent_seq"] for row in rows)
    again = _rows(change(load(name)), tmp_path)
    assert again[:2] == (rows, totals)
    assert [SAID in note for note in again[2]] == [True]


def test_without_times_an_answer_stands_right_behind_its_request(tmp_path: Path) -> None:
    lines = load("mini-swe-agent/basic")
    plain = _rows(lines, tmp_path)
    bare = [{name: value for name, value in line.items() if name != "t"} for line in lines]
    assert _rows(bare[::-1], tmp_path)[:2] == plain[:2]


def test_numbers_that_start_again_are_another_execution_in_any_order(tmp_path: Path) -> None:
    lines = load("mini-swe-agent/basic")
    rows, totals, notes = _rows(lines + lines, tmp_path)
    assert notes == []
    assert [row["seq"] for row in rows] == [1, 2, 3, 4, 5] * 2
    assert rows[5]["parent_seq"] is None
    assert _rows((lines + lines)[::-1], tmp_path)[:2] == (rows, totals)


@pytest.mark.parametrize("kind", ["as written", "late answers", "no answers", "executions that alternate"])
def test_a_file_in_order_is_read_as_it_stands(kind: str, tmp_path: Path) -> None:
    lines = load("qwen-code/subcompact")
    if kind == "late answers":
        lines = with_late_responses(lines)
    elif kind == "no answers":
        lines = [line for line in lines if line["kind"] == "request"]
    elif kind == "executions that alternate":
        lines = interleaved([lines, load("opencode/basic")])
    file = tmp_path / "capture.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    order = Order()
    assert len(list(order.watch(read(file)))) == len(lines)
    assert order.changed() is None


def test_lines_that_cannot_be_read_are_still_named_by_their_number(tmp_path: Path) -> None:
    lines = load("mini-swe-agent/basic")[::-1]
    file = tmp_path / "capture.jsonl"
    file.write_text("\n\n".join(["{no json", *(json.dumps(line) for line in lines)]))
    order = Order()
    list(order.watch(read(file)))
    places = order.changed()
    assert places is not None
    assert [place.line for place in places][:2] == [1, len(lines) * 2 + 1]
