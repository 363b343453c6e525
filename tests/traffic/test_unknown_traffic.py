"""Traffic as no rule has seen it: other versions, lost headers, parts of files, histories that were rewritten."""

from pathlib import Path

import pytest

from tests.traffic import captures
from tests.traffic.captures import NAMES, false_forks, load, played, wrong_roles

CHANGES = [
    captures.without_headers,
    captures.with_other_prompts,
    captures.with_other_tools,
    captures.without_responses,
    captures.second_half,
    captures.with_other_ids_and_defaults,
    captures.with_late_responses,
    captures.with_failures,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_captures_keep_98_of_100_roles_and_get_no_false_fork(change, tmp_path: Path) -> None:
    wrong, forks, total = [], [], 0
    for name in NAMES:
        lines = change(load(name))
        found = played(lines, tmp_path)
        wrong += [(name, *miss) for miss in wrong_roles(lines, found)]
        forks += [(name, seq) for seq in false_forks(found)]
        total += len(found.rows)
    assert forks == []
    assert len(wrong) <= 0.02 * total, wrong


def test_a_harness_that_nobody_knows_is_said_to_be_unknown_and_has_its_roles_all_the_same(tmp_path: Path) -> None:
    wrong, total, unsure = [], 0, []
    for name in NAMES:
        lines = captures.with_other_tools(captures.with_other_prompts(captures.without_own_metadata(load(name))))
        found = played(lines, tmp_path)
        unsure += [name for seen in found.detections.values() if not seen.is_sure]
        assert ({row.profile for row in found.rows} == {"generic"}) == (name in unsure)
        assert false_forks(found) == [], name
        wrong += [(name, *miss) for miss in wrong_roles(lines, found)]
        total += len(found.rows)
    assert len(wrong) <= 0.02 * total, wrong
    assert {"codex/compact", "mini-swe-agent/basic", "opencode/basic", "qwen-code/subcompact"} <= set(unsure)


def test_executions_of_several_harnesses_in_one_capture_are_told_apart(tmp_path: Path) -> None:
    names = ["claude-code/sendmsg", "codex/compact", "opencode/basic", "qwen-code/subcompact", "mini-swe-agent/basic"]
    lines = captures.interleaved([load(name) for name in names])
    found = played(lines, tmp_path)
    assert {seen.name for seen in found.detections.values()} == {name.partition("/")[0] for name in names}
    assert (wrong_roles(lines, found), false_forks(found)) == ([], [])


def test_images_are_replayed_as_a_text_that_says_so_and_the_refusal_is_named(tmp_path: Path) -> None:
    lines = load("claude-code/autocompact")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    for line in captures.requests(lines):
        for message in (line["body"] or {}).get("messages", ()):
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block.get("content") == "step0":
                    block["content"] = [image]
    found = played(lines, tmp_path)
    assert (wrong_roles(lines, found), false_forks(found)) == ([], [])
    assert len(found.notes) == 3
    assert all("block of type image" in note for note in found.notes)


def test_a_request_that_cannot_be_read_has_the_role_that_its_headers_tell(tmp_path: Path) -> None:
    lines = load("claude-code/sendmsg")
    for line in captures.requests(lines)[-2:]:
        line["body"]["messages"] = "lost"
    found = played(lines, tmp_path)
    assert wrong_roles(lines, found) == []
    assert len(found.notes) == 2
