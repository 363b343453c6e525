"""A request that comes again has the parent of the first one, and tells the same of it."""

import json
from pathlib import Path
from typing import Any

from agents.proxy.rendering import BUNDLED_POLICY, rendering
from agents.proxy.traffic.replay import Replayed, replay
from agents.proxy.traffic.table import explain, table
from tests.traffic.captures import Lines, load, played

Message = dict[str, str]


def _chat(*histories: tuple[list[Message], str]) -> Lines:
    """A capture of chat calls: each one's messages and the answer's text."""
    lines: Lines = []
    for seq, (messages, answer) in enumerate(histories, 1):
        body: dict[str, Any] = {"model": "m", "messages": messages, "stream": seq % 2 == 1}
        lines.append({"kind": "request", "seq": seq, "method": "POST", "path": "/v1/chat/completions", "body": body})
        reply = {"choices": [{"message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}]}
        lines.append({"kind": "response", "seq": seq, "status": 200, "reply": reply})
    return lines


def _reworded() -> Lines:
    hello, changed = {"role": "user", "content": "hello"}, {"role": "user", "content": "changed"}
    looking = {"role": "assistant", "content": "Looking."}
    more = {"role": "user", "content": "go on"}
    return _chat(
        ([hello], "Looking."),
        ([hello, looking, more], "All."),
        ([changed, looking, more], "Some."),
        ([changed, looking, more], "Some."),
        ([changed, looking, more], "None."),
    )


def _told(found: Replayed) -> list[tuple[int | None, bool, str | None]]:
    return [(row.parent_seq, row.prefix_kept, row.branch_reason) for row in found.rows]


def test_a_false_fork_that_comes_again_has_its_parent_and_counts_once(tmp_path: Path) -> None:
    found = played(_reworded(), tmp_path)
    assert _told(found) == [(None, True, None), (1, True, None), *[(2, False, None)] * 3]
    assert found.totals.false_forks == 1
    assert [row.new_tokens == 0 for row in found.rows] == [False, False, False, True, False]
    assert ["FALSE FORK" in line for line in table(found.rows).split("\n")[-3:]] == [True, False, False]
    assert ["repeats 3" in line for line in table(found.rows).split("\n")[-3:]] == [False, True, True]


def test_a_compaction_that_comes_again_has_its_parent_and_reason(tmp_path: Path) -> None:
    after = 5
    lines = [line for line in load("claude-code/autocompact") if line["seq"] <= after]
    found = played(lines + [{**line, "seq": 1000} for line in lines if line["seq"] == after], tmp_path)
    rows = {row.seq: row for row in found.rows}
    assert (rows[after].branch_reason, rows[after].prefix_kept) == ("compaction", False)
    for name in ("role", "conversation", "parent_seq", "prefix_kept", "branch_reason"):
        assert rows[1000].public()[name] == rows[after].public()[name], name
    assert rows[1000].new_tokens == 0


def test_doubt_about_the_harness_is_said_once_where_two_dialects_share_a_file(tmp_path: Path) -> None:
    lines = _reworded()
    other = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    for host in ("a:1", "b:1"):
        asked = {"seq": 9, "method": "POST", "path": "/v1/messages", "headers": [["Host", host]], "body": other}
        lines.append({"kind": "request", **asked})
    file = tmp_path / "capture.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    used = rendering(BUNDLED_POLICY)
    found = replay(file, "auto", used)
    assert len(found.detections) == 3
    assert sum("unsure which harness" in line for line in explain(file, found, "auto", used)) == 1
