"""Captures of real harnesses through the replay: roles, conversations and branches (docs/algorithms.md §2.3, §4)."""

from pathlib import Path

import pytest

from tests.traffic.captures import NAMES, false_forks, load, played, requests, wrong_roles


@pytest.mark.parametrize("name", NAMES)
def test_a_capture_is_recognised_has_the_right_roles_and_no_false_fork(name: str, tmp_path: Path) -> None:
    lines = load(name)
    found = played(lines, tmp_path)
    assert {row.profile for row in found.rows} == {name.partition("/")[0]}
    assert all(row.confidence >= 0.8 for row in found.rows)
    assert (wrong_roles(lines, found), false_forks(found), found.notes) == ([], [], [])


def test_the_generic_profile_finds_at_least_98_of_100_roles_by_the_shape_of_the_traffic(tmp_path: Path) -> None:
    wrong, total = [], 0
    for name in NAMES:
        lines = load(name)
        found = played(lines, tmp_path, "generic")
        assert false_forks(found) == [], name
        wrong += [(name, *miss) for miss in wrong_roles(lines, found)]
        total += len(requests(lines))
    assert len(wrong) <= 0.02 * total, wrong


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-code/autocompact", {5: "compaction", 6: "kept-round"}),
        ("claude-code/forksub", {4: "fork"}),
        ("claude-code/sendmsg", {6: "resume"}),
        ("codex/compact", {4: "compaction", 5: "compaction"}),
        ("mini-swe-agent/basic", {3: "dropped-answer"}),
        ("qwen-code/subcompact", {5: "compaction"}),
        ("opencode/basic", {}),
    ],
)
def test_true_branches_have_their_reasons_and_nothing_else_has_one(name: str, expected: dict, tmp_path: Path) -> None:
    found = played(load(name), tmp_path)
    assert {row.seq: row.branch_reason for row in found.rows if row.branch_reason} == expected


@pytest.mark.parametrize("name", NAMES)
def test_every_token_is_either_shared_or_new(name: str, tmp_path: Path) -> None:
    found = played(load(name), tmp_path)
    assert sum(row.new_tokens for row in found.rows) == found.totals.unique_tokens
    assert sum(row.new_tokens + row.shared_tokens for row in found.rows) == found.totals.total_tokens
    assert 0 < found.totals.leaves <= sum(row.role != "auxiliary" for row in found.rows)


def test_a_request_that_keeps_its_parents_tokens_shares_them_all(tmp_path: Path) -> None:
    found = played(load("claude-code/autocompact"), tmp_path)
    by_seq = {row.seq: row for row in found.rows}
    kept = [row for row in found.rows if row.parent_seq is not None and row.prefix_kept]
    assert len(kept) >= 5
    for row in kept:
        parent = by_seq[row.parent_seq]
        assert row.shared_tokens >= parent.shared_tokens + parent.new_tokens
