"""What each sub-command does to a real server, what it prints, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents import events
from agents.models import Call, Execution, Run
from scheduler.models import Override
from tests.client.conftest import Gyre
from tests.support.demo_run import demo_run
from tests.support.evaluated_run import evaluate


@pytest.fixture
def evaluated(run: Run) -> Run:
    evaluate(run)
    return run


def test_a_run_is_launched_once_per_key_and_its_number_is_all_of_the_output(gyre: Gyre) -> None:
    command = ("launch", "--preset", "quickstart", "--set", "steps=3", "--seed", 7, "--name", "ci", "--key", "build-7")
    first, again = gyre(*command), gyre(*command)
    run = Run.objects.get(pk=int(first.out))
    assert (first.code, first.out, again.out) == (0, f"{run.pk}\n", first.out)
    assert (run.name, run.config["steps"], run.seed, run.idempotency_key) == ("ci", 3, 7, "build-7")
    assert f"gyre watch {run.pk}" in first.err
    assert gyre(*command, "--json").json["id"] == run.pk


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("launch", "--preset", "quickstart", "--set", "cels=3"), "cels: "),
        (("launch", "--preset", "quickstart", "--set", "cels"), "a setting is name=value"),
        (("launch", "--preset", "nope"), "known presets"),
        (("compare", 1), "two to 6 runs"),
        (("wait", 1, "--timeout", "soon"), "is no duration"),
        (("watch", "x"), "not a valid integer"),
        (("list", "--state", "runing"), "is not one of"),
        (("nope",), "No such command"),
    ],
)
def test_bad_usage_is_said_in_a_sentence_and_starts_nothing(gyre: Gyre, arguments: tuple[Any, ...], words: str) -> None:
    before = Run.objects.count()
    done = gyre(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "Traceback" not in done.err
    assert Run.objects.count() == before


def test_runs_are_listed_and_shown(gyre: Gyre, run: Run) -> None:
    assert [row["id"] for row in gyre("list", "--json").json] == [run.pk]
    assert gyre("list", "--state", "finished", "--json").json == []
    lines = gyre("list").out.splitlines()
    assert lines[0].split() == ["run", "name", "preset", "state", "step", "of", "waterlevel", "created"]
    assert lines[1].split()[:4] == [str(run.pk), "quickstart", "quickstart", "running"]
    shown = gyre("show", run.pk)
    assert f"{run.version} of 20" in shown.out
    assert gyre("show", run.pk, "--json").json["metrics"]["step"] == run.version


def test_stop_pause_and_resume_keep_their_reason(gyre: Gyre, run: Run) -> None:
    assert gyre("pause", run.pk).code == 2
    assert gyre("pause", run.pk, "--reason", "disk").out == f"Run {run.pk} is paused.\n"
    run.refresh_from_db()
    assert run.state_reason == "disk"
    refused = gyre("pause", run.pk, "--reason", "disk")
    assert (refused.code, "paused" in refused.err) == (1, True)
    assert gyre("resume", run.pk, "--json").json["state"] == "starting"
    assert gyre("stop", run.pk, "--reason", "enough").code == 0


@pytest.mark.parametrize(
    ("limits", "code", "words"),
    [
        ((), 0, "gain: 0.500 ± 0.289"),
        (("--min-reward", 0.7, "--min-gain", 0.5, "--max-false-forks", 0), 0, "ok: held-out reward 0.750 ± 0.250"),
        (("--min-reward", 0.8), 3, "NOT OK: held-out reward 0.750"),
        (("--min-gain", 0.4, "--margin", 2), 3, "does not reach 0.4 by 2 standard errors"),
    ],
)
def test_a_finished_run_passes_or_fails_its_gate(
    gyre: Gyre, evaluated: Run, limits: tuple[Any, ...], code: int, words: str
) -> None:
    Execution.objects.filter(run=evaluated).update(num_false_forks=0)
    done = gyre("wait", evaluated.pk, "--until", "finished", *limits)
    assert (done.code, words in done.out) == (code, True), done
    assert gyre("gate", evaluated.pk, *limits, "--json").json["passed"] is (code == 0)


def test_a_run_that_was_stopped_or_goes_on_has_a_code_of_its_own(gyre: Gyre, run: Run) -> None:
    assert gyre("gate", run.pk).code == 5
    late = gyre("wait", run.pk, "--timeout", "1s")
    assert (late.code, late.out) == (5, "")
    assert f"the time is up: run {run.pk} is running" in late.err
    Run.objects.filter(pk=run.pk).update(state="paused", state_reason="the disk is full")
    paused = gyre("wait", run.pk, "--max-pause", "0s")
    assert (paused.code, f"run {run.pk} is paused (the disk is full)" in paused.err) == (5, True)
    Run.objects.filter(pk=run.pk).update(state="stopped", state_reason="the disk is full")
    for command in ("wait", "watch"):
        done = gyre(command, run.pk)
        assert (done.code, "the disk is full" in done.err) == (4, True), command


def _told(process: Any, words: str) -> list[str]:
    """Lines of standard error up to the one that has the words."""
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError("".join(lines))


def test_watch_says_what_happens_until_the_run_ends(gyre: Gyre, run: Run) -> None:
    with gyre.start("watch", run.pk, "--json") as process:
        _told(process, f"step {run.version} of 20 · running")
        Run.objects.filter(pk=run.pk).update(version=run.version + 1)
        events.record(run.pk, events.EventKind.STEP_COMMITTED, {"step": run.version + 1})
        _told(process, f"step {run.version + 1} of 20")
        Run.objects.filter(pk=run.pk).update(state="finished")
        events.record(run.pk, events.EventKind.RUN_FINISHED, {})
        _told(process, f"Run {run.pk} is finished.")
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    states = [json.loads(line)["run"]["state"] for line in out.splitlines()]
    assert states == ["running", "running", "finished"]


@pytest.mark.parametrize("command", ["watch", "wait"])
def test_an_interrupt_leaves_the_run_alone_and_says_how_to_go_on(gyre: Gyre, run: Run, command: str) -> None:
    with gyre.start(command, run.pk) as process:
        _told(process, "running")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert f"interrupted; run {run.pk} goes on. `gyre {command} {run.pk}`" in err
    run.refresh_from_db()
    assert run.state == "running"


def test_runs_are_compared_by_figures_and_differing_settings(gyre: Gyre, evaluated: Run) -> None:
    other = demo_run(project=evaluated.project, seed=2)
    found = gyre("compare", evaluated.pk, other.pk, "--json").json
    assert found["settings"]["seed"] == [1, 2]
    assert "task_set" not in found["settings"]
    text = gyre("compare", evaluated.pk, other.pk).out
    assert "0.750 ± 0.250" in text
    assert "groups_per_batch" in text


def test_overrides_are_set_listed_and_released(gyre: Gyre, run: Run) -> None:
    pinned = gyre("override", "set", run.pk, "pin", "--cell", 1, "--role", "rollout", "--reason", "tail", "--for", "5m")
    row = Override.objects.get()
    assert (row.kind, row.cell_index, row.value, row.reason) == ("pin", 1, {"role": "rollout"}, "tail")
    assert (row.expires_at - row.created_at).total_seconds() == pytest.approx(300, abs=5)
    assert f"Override {row.pk}: pin cell 1 to rollout until" in pinned.out
    tuned = gyre("override", "set", run.pk, "setting", "rho_min=0.75", "--reason", "try", "--json")
    assert tuned.json["value"] == {"name": "rho_min", "value": 0.75}
    assert len(gyre("override", "list", run.pk, "--json").json) == 2
    assert "setting rho_min = 0.75 until" in gyre("override", "list", run.pk).out
    assert gyre("override", "release", run.pk, row.pk).code == 0
    assert gyre("override", "release", run.pk, row.pk).code == 1
    assert gyre("override", "set", run.pk, "nonsense", "--reason", "x").code == 2


def test_the_tree_and_the_tokens_of_an_execution_are_shown(gyre: Gyre, run: Run) -> None:
    execution = Call.objects.filter(execution__run=run).order_by("pk").first()
    assert execution is not None
    number = execution.execution_id
    outline = gyre("tree", number)
    assert "0–1, 8–9" in outline.out
    assert "draw 1: probability 0.78, random 0.41" in outline.out
    found = gyre("tokens", number, "--limit", 5, "--json").json
    assert (len(found["results"]), found["next"], found["results"][0]["position"]) == (5, 5, 0)
    every = gyre("tokens", number, "--start", 0, "--limit", 500, "--json").json["results"]
    assert {token["trained"] for token in every} == {True, False}
    assert all((token["logprob"] is None) == (not token["sampled"]) for token in every)
    assert "`--start 5` goes on" in gyre("tokens", number, "--limit", 5).err
    assert gyre("tokens", number, "--call", 99999).code == 1


def test_an_export_is_the_servers_own_bytes_under_its_name_once_whole(gyre: Gyre, run: Run, tmp_path: Path) -> None:
    done = gyre("export", run.pk, "executions", "groups", "--format", "jsonl", "--out", tmp_path / "data", "--json")
    assert done.code == 0, done.err
    paths = [Path(row["path"]) for row in done.json]
    assert [path.name for path in paths] == [f"run-{run.pk}-executions.jsonl", f"run-{run.pk}-groups.jsonl"]
    headers = {"Authorization": f"Bearer {gyre.variables['GYRE_TOKEN']}"}
    site = gyre.variables["GYRE_URL"]
    direct = httpx.get(f"{site}/api/v1/runs/{run.pk}/exports/executions.jsonl", headers=headers, timeout=60)
    assert paths[0].read_bytes() == direct.content
    assert done.json[0]["rows"] == int(direct.headers["X-Total-Rows"])
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == sorted(path.name for path in paths)
    assert gyre("export", run.pk, "calls", "--format", "csv", "--out", tmp_path / "x").code == 1
    assert list((tmp_path / "x").iterdir()) == []


def test_an_export_that_breaks_off_leaves_no_file(gyre: Gyre, tmp_path: Path) -> None:
    """A server that promises a hundred bytes and leaves after seven."""

    def answer_once(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\nX-Total-Rows: 9\r\n\r\n{"a":1}')

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_once, args=[server], daemon=True).start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        done = gyre("export", 1, "executions", "--out", tmp_path / "data", GYRE_URL=address)
    assert (done.code, done.out) == (6, "")
    assert list((tmp_path / "data").iterdir()) == []


def test_a_page_is_opened_or_its_address_printed(gyre: Gyre, run: Run) -> None:
    done = gyre("open", run.pk)
    assert (done.code, done.out) == (0, f"{gyre.variables['GYRE_URL']}/runs/{run.pk}/\n")
    assert gyre("open", "--execution", 5, "--json").json["url"].endswith("/executions/5/")


def test_what_cannot_be_reached_or_is_not_allowed_has_a_code_of_its_own(
    gyre: Gyre, with_scopes: Callable[..., Gyre], run: Run
) -> None:
    away = gyre("list", GYRE_URL="http://127.0.0.1:1")
    assert (away.code, away.out) == (6, "")
    assert "http://127.0.0.1:1 cannot be reached" in away.err
    assert gyre("list", GYRE_TOKEN="gyre_unknown").code == 7
    assert gyre("list", GYRE_TOKEN="").code == 7
    reader = with_scopes("read")("stop", run.pk, "--reason", "x")
    assert (reader.code, "`operate`" in reader.err) == (7, True)
    assert gyre("show", 987654321).code == 1
    assert gyre("list", GYRE_URL=f"{gyre.variables['GYRE_URL']}/login").code in (1, 6)


def test_text_that_a_terminal_would_obey_is_not_passed_on(gyre: Gyre, run: Run) -> None:
    evil = "\x1b]0;owned\x07\x1b[31mred\u202egnp.exe\x9b2J\rgone"
    Run.objects.filter(pk=run.pk).update(state="stopped", state_reason=evil, name=evil[:120])
    for command in (("list",), ("show", run.pk), ("watch", run.pk), ("gate", run.pk), ("compare", run.pk, run.pk),
                    ("show", run.pk, "--json")):  # fmt: skip
        done = gyre(*command)
        assert not set(done.out + done.err) & set("\x1b\x07\x9b\u202e\r"), command
        assert "red" in done.out + done.err


def test_a_server_that_restarts_while_a_run_is_waited_for_is_asked_again(gyre: Gyre, evaluated: Run) -> None:
    """A relay in between refuses the first connections, as a web process that restarts does."""
    import http.server
    import urllib.error
    import urllib.request

    site, refused = gyre.variables["GYRE_URL"], [0]

    class Relay(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if refused[0] < 2:
                refused[0] += 1
                self.send_error(502)
                return
            asked = urllib.request.Request(site + self.path, headers={"Authorization": self.headers["Authorization"]})
            with urllib.request.urlopen(asked, timeout=60) as answer:
                body = answer.read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Relay) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        done = gyre("wait", evaluated.pk, GYRE_URL=f"http://127.0.0.1:{relay.server_port}")
        relay.shutdown()
    assert (done.code, refused) == (0, [2]), done.err
    assert done.err.count("Trying again …") == 1
