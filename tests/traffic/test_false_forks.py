"""Histories that a harness changes without a reason are false forks, with what they should have kept."""

from pathlib import Path
from typing import Any

import pytest

from agents.proxy.rendering import BUNDLED_POLICY, Rendering, rendering
from agents.proxy.traffic.replay import replay
from tests.proxy import policies
from tests.traffic.captures import FIXTURES, NAMES, Lines, false_forks, load, played, requests


@pytest.mark.parametrize("name", NAMES)
def test_compactions_and_filled_in_defaults_are_no_false_forks_where_calls_are_rendered_whole(
    name: str, tmp_path: Path
) -> None:
    policy = Rendering(policies.write(tmp_path, "unheard_of", template=policies.CHAT_TEMPLATE))
    assert not policy.extends
    assert false_forks(replay(FIXTURES / f"{name}.jsonl", "auto", policy)) == []


def _messages(line: dict[str, Any]) -> list[dict[str, Any]]:
    body = line["body"] if isinstance(line["body"], dict) else {}
    return body.get("messages") or body.get("input") or []


def _append(message: dict[str, Any], text: str) -> None:
    """Add to the first text of a message."""
    content = message["content"]
    if isinstance(content, str):
        message["content"] = content + text
    else:
        content[0]["text"] += text


def _with_a_clock(lines: Lines) -> Lines:
    for i, line in enumerate(requests(lines)):
        system = (line["body"] or {}).get("system") if isinstance(line["body"], dict) else None
        if isinstance(system, list):
            system[-1]["text"] += f" It is {i} o'clock."
        elif _messages(line):
            _append(_messages(line)[0], f" It is {i} o'clock.")
    return lines


@pytest.mark.parametrize(
    "name", ["claude-code/compactions", "codex/compactions", "opencode/basic", "mini-swe-agent/basic"]
)
def test_a_clock_in_the_system_prompt_breaks_every_step_and_is_seen(name: str, tmp_path: Path) -> None:
    plain = played(load(name), tmp_path)
    steps = [row.seq for row in plain.rows if row.parent_seq is not None and row.prefix_kept and not row.branch_reason]
    broken = played(_with_a_clock(load(name)), tmp_path)
    explained = {row.seq for row in broken.rows if row.branch_reason}
    assert set(steps) - explained <= set(false_forks(broken))
    assert len(set(false_forks(broken)) & set(steps)) >= 0.7 * len(steps)


def test_a_false_fork_shows_the_first_tokens_on_either_side(tmp_path: Path) -> None:
    lines = load("mini-swe-agent/basic")
    for line in requests(lines)[3:]:
        _append(_messages(line)[1], " (edited)")
    found = played(lines, tmp_path)
    [row] = [row for row in found.rows if row.departure is not None]
    assert (row.seq, row.branch_reason, row.prefix_kept, found.totals.false_forks) == (4, None, False, 1)
    decode = rendering(BUNDLED_POLICY).tokenizer.decode
    assert decode(row.departure.recorded_ids).startswith("<|im_end|>")
    assert "(edited)" in decode(row.departure.given_ids)
    assert row.departs_from_seq == 1


def test_a_turn_with_another_text_breaks_what_stands_behind_it(tmp_path: Path) -> None:
    lines = load("opencode/basic")
    for line in requests(lines)[11:]:
        turn = next(m for m in _messages(line) if m["role"] == "assistant")
        turn["content"] = "I never said that."
    assert false_forks(played(lines, tmp_path)) == [12]


def test_tool_results_that_were_taken_out_with_a_notice_are_a_compaction(tmp_path: Path) -> None:
    lines = load("opencode/basic")
    for line in requests(lines)[11:]:
        next(m for m in _messages(line) if m["role"] == "tool")["content"] = "[Old tool result content cleared]"
    found = played(lines, tmp_path)
    assert false_forks(found) == []
    assert found.rows[11].branch_reason == "compaction"


def test_a_user_who_speaks_after_a_final_answer_does_not_excuse_other_words_before_it(tmp_path: Path) -> None:
    lines = load("claude-code/sendmsg")
    resumed = requests(lines)[5]
    _append(_messages(resumed)[0], " changed")
    assert 6 in false_forks(played(lines, tmp_path))
