"""`manage.py replay_traffic` and `manage.py capture` from the outside. No test here may touch a database."""

import json
import os
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import httpx
import pytest
from django.core.management import CommandError, call_command

from tests.traffic.captures import FIXTURES

ROOT = Path(__file__).parents[2]
FIELDS = [
    "file", "seq", "method", "profile", "confidence", "role", "conversation", "parent_seq", "prefix_kept",
    "branch_reason", "shared_tokens", "new_tokens",
]  # fmt: skip
TOTALS = ["requests", "false_forks", "unique_tokens", "total_tokens", "leaves", "roles"]
CAPTURE = FIXTURES / "mini-swe-agent" / "basic.jsonl"


def _run(*args: str) -> tuple[list[dict], str]:
    out, err = StringIO(), StringIO()
    call_command("replay_traffic", *args, "--json", stdout=out, stderr=err)
    return [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue()


def test_each_request_is_one_json_line_and_the_last_line_has_the_totals() -> None:
    other = FIXTURES / "opencode" / "basic.jsonl"
    lines, err = _run(str(CAPTURE), str(other))
    assert [list(line) for line in lines[:-1]] == [FIELDS] * 17
    assert list(lines[-1]) == TOTALS
    assert [line["file"] for line in lines[:-1]] == [str(CAPTURE)] * 5 + [str(other)] * 12
    assert lines[-1]["requests"] == 17
    assert lines[-1]["roles"] == {"auxiliary": 1, "main": 11, "sub-agent": 5}
    assert err == ""


def test_lines_that_cannot_be_read_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = CAPTURE.read_text().split("\n")
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join([good[0], "{not json", "[]", '{"kind": "other", "seq": 1}', *good[1:]]))
    lines, err = _run(str(bad))
    assert lines[-1]["requests"] == 5
    for number in (2, 3, 4):
        assert f"bad.jsonl:{number}: " in err
    assert "3 lines could not be read" in err


def test_a_file_that_cannot_be_read_fails_the_command_after_the_others(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="1 of 2 files"):
        _run(str(tmp_path / "none.jsonl"), str(CAPTURE))
    with pytest.raises(CommandError, match="none of the files"):
        _run(str(tmp_path / "none.jsonl"))


def test_a_profile_that_is_named_is_used_and_a_wrong_tokenizer_is_refused(tmp_path: Path) -> None:
    lines, _ = _run(str(CAPTURE), "--profile", "generic")
    assert {(line["profile"], line["confidence"]) for line in lines[:-1]} == {("generic", 1.0)}
    with pytest.raises(CommandError, match="--tokenizer"):
        _run(str(CAPTURE), "--tokenizer", str(tmp_path))


def test_a_table_is_for_people_and_doubt_is_said(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in CAPTURE.read_text().split("\n") if line]
    for line in lines:
        line.pop("headers", None)
    file = tmp_path / "who.jsonl"
    file.write_text("\n".join(json.dumps(line).replace("issue", "matter") for line in lines))
    out, err = StringIO(), StringIO()
    call_command("replay_traffic", str(file), stdout=out, stderr=err)
    assert "dropped-answer" in out.getvalue()
    assert "5 requests (5 main); 0 false forks" in out.getvalue()
    assert "unsure which harness this is" in err.getvalue()


def test_a_capture_is_not_written_over_and_ends_with_a_signal(tmp_path: Path) -> None:
    out = tmp_path / "capture.jsonl"
    out.write_text("precious")
    with pytest.raises(CommandError, match="--force"):
        call_command("capture", "--out", str(out), "--scripted")
    child = subprocess.Popen(
        [sys.executable, "manage.py", "capture", "--out", str(out), "--scripted", "--force"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | {"DATABASE_URL": "postgresql://127.0.0.1:9/none"},
    )  # fmt: skip
    assert child.stdout is not None
    with child.stdout:
        base = child.stdout.readline().split()[2]
        body = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
        assert httpx.post(f"{base}/v1/chat/completions", json=body).status_code == 200
        child.send_signal(signal.SIGINT)
        assert "1 requests written" in child.stdout.read()
        assert child.wait(20) == 0
    assert [json.loads(line)["kind"] for line in out.read_text().splitlines()] == ["request", "response"]


@pytest.mark.parametrize("content", ["", "{not json\n[]\n", '{"kind": "response", "seq": 1, "status": 200}\n'])
def test_a_file_without_any_request_fails_and_the_totals_still_end_the_output(content: str, tmp_path: Path) -> None:
    file, out = tmp_path / "nothing.jsonl", StringIO()
    file.write_text(content)
    with pytest.raises(CommandError, match="holds a request"):
        call_command("replay_traffic", str(file), "--json", stdout=out, stderr=StringIO())
    [totals] = [json.loads(line) for line in out.getvalue().splitlines()]
    assert list(totals) == TOTALS
    assert totals["requests"] == 0
    out = StringIO()
    with pytest.raises(CommandError, match="holds a request"):
        call_command("replay_traffic", str(file), stdout=out, stderr=StringIO())
    assert out.getvalue() == ""
    with pytest.raises(CommandError, match="1 of 2 files"):
        _run(str(file), str(CAPTURE))


@pytest.mark.parametrize(
    "url", ["notaurl", "", "http://", "ftp://host/v1", "http://host:99999", "localhost:8000", "http://h/?key=1"]
)
def test_an_upstream_that_is_no_url_is_refused_before_anything_is_written(url: str, tmp_path: Path) -> None:
    out = tmp_path / "capture.jsonl"
    with pytest.raises(CommandError, match=r"--upstream .*http://HOST:PORT"):
        call_command("capture", "--out", str(out), "--upstream", url)
    assert not out.exists()
