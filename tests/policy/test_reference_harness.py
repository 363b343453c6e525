"""The reference harness against a scripted model over real HTTP, with real shells."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents.harness.reference import program
from tests.policy.model_server import Answer, Script, ScriptedModel, bash, delegate, in_order, scripted_model

DONE = Answer("done")


@dataclass
class Outcome:
    status: int
    result: dict[str, Any]
    model: ScriptedModel
    transcript: list[dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run the program in an empty working directory."""
    work, logs = tmp_path / "work", tmp_path / "logs"
    work.mkdir()
    monkeypatch.chdir(work)
    (tmp_path / "instruction.md").write_text("Put the word mango into notes.txt.\n")

    def run_program(script: Script, **changes: str) -> Outcome:
        with scripted_model(script) as model:
            env = {
                "OPENAI_BASE_URL": model.base_url,
                "OPENAI_API_KEY": "key",
                "GYRE_INSTRUCTION": str(tmp_path / "instruction.md"),
                "GYRE_LOGS": str(logs),
            }
            status = program.main({**env, **changes})
        transcript = logs / "transcript.jsonl"
        lines = transcript.read_text().splitlines() if transcript.exists() else []
        result = json.loads((logs / "result.json").read_text())
        return Outcome(status, result, model, [json.loads(line) for line in lines])

    return run_program


def last_message(request: dict[str, Any]) -> dict[str, Any]:
    return request["messages"][-1]


def test_the_agent_runs_commands_in_its_directory_until_the_model_answers_without_a_call(run) -> None:
    outcome = run(in_order(bash("echo mango > notes.txt; cat notes.txt"), DONE))
    assert Path("notes.txt").read_text() == "mango\n"
    assert last_message(outcome.model.requests[1]) == {"role": "tool", "tool_call_id": "call_0", "content": "mango"}
    assert outcome.status == 0
    assert outcome.result["turns"] == 2
    assert outcome.result["malformed_calls"] == 0
    assert outcome.result["turn_limit"] is False


def test_the_first_request_holds_the_instruction_and_both_tools(run) -> None:
    outcome = run(in_order(DONE))
    request = outcome.model.requests[0]
    assert request["messages"] == program.opening(program.MAIN_SYSTEM, "Put the word mango into notes.txt.")
    assert request["tools"] == program.MAIN_TOOLS


def test_a_request_after_a_call_extends_the_one_before_it(run) -> None:
    outcome = run(in_order(bash("true"), bash("true"), DONE))
    first, second, third = (request["messages"] for request in outcome.model.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second


def test_output_and_errors_come_back_together_and_are_cut(run) -> None:
    outcome = run(in_order(bash("echo out; echo err >&2"), bash("head -c 1000000 /dev/zero | tr '\\0' x"), DONE))
    assert last_message(outcome.model.requests[1])["content"] == "out\nerr"
    assert last_message(outcome.model.requests[2])["content"] == "x" * 120


def test_a_command_that_takes_too_long_is_killed_with_its_children(run) -> None:
    outcome = run(in_order(bash("sleep 60 & echo $! > child; wait"), DONE), GYRE_COMMAND_TIMEOUT_S="0.3")
    assert last_message(outcome.model.requests[1])["content"].startswith("error: the command took too long")
    child = Path("/proc", Path("child").read_text().strip())
    assert not child.exists() or "State:\tZ" in (child / "status").read_text()


def test_a_background_process_that_holds_the_output_open_does_not_outlive_the_time_limit(run) -> None:
    outcome = run(in_order(bash("setsid sleep 3 & echo started"), DONE), GYRE_COMMAND_TIMEOUT_S="0.3")
    assert "started" in last_message(outcome.model.requests[1])["content"]


def test_a_helper_has_its_own_conversation_and_only_its_answer_comes_back(run) -> None:
    def script(request: dict[str, Any]) -> Answer:
        system, last = request["messages"][0]["content"], last_message(request)
        if system == program.HELPER_SYSTEM:
            return bash("echo gold > gold.txt") if last["role"] == "user" else Answer("the job is done")
        return delegate("Put the word gold into gold.txt.") if last["role"] == "user" else DONE

    outcome = run(script)
    helper = outcome.model.requests[1]
    assert helper["messages"] == program.opening(program.HELPER_SYSTEM, "Put the word gold into gold.txt.")
    assert helper["tools"] == program.HELPER_TOOLS
    assert last_message(outcome.model.requests[-1])["content"] == "the job is done"
    assert [line["agent"] for line in outcome.transcript] == ["helper 1", "main"]
    assert Path("gold.txt").read_text() == "gold\n"
    assert outcome.result["turns"] == 4


def test_two_delegations_in_one_reply_run_at_the_same_time(run) -> None:
    both_started = threading.Barrier(2)

    def script(request: dict[str, Any]) -> Answer:
        if request["messages"][0]["content"] == program.HELPER_SYSTEM:
            both_started.wait(timeout=30)
            return Answer(f"finished {last_message(request)['content']}")
        return delegate("one", "two") if last_message(request)["role"] == "user" else DONE

    outcome = run(script)
    results = outcome.model.requests[-1]["messages"][-2:]
    assert [message["content"] for message in results] == ["finished one", "finished two"]
    assert outcome.result["helpers"] == 2


def test_a_helper_cannot_delegate(run) -> None:
    def script(request: dict[str, Any]) -> Answer:
        first = last_message(request)["role"] == "user"
        return delegate("again") if first else Answer(last_message(request)["content"])

    outcome = run(script)
    assert last_message(outcome.model.requests[2])["content"] == program.BAD_CALL
    assert outcome.result["malformed_calls"] == 1


def test_a_full_history_is_replaced_by_the_models_summary(run) -> None:
    outcome = run(in_order(bash("true", total_tokens=361), Answer("Left: put it."), DONE), GYRE_COMPACT_TOKENS="360")
    question, continued = outcome.model.requests[1:]
    assert [message["role"] for message in question["messages"][-2:]] == ["tool", "user"]
    assert last_message(question)["content"] == program.SUMMARY_QUESTION
    assert continued["messages"] == program.opening(program.MAIN_SYSTEM, "Continue. Left: put it.")
    assert outcome.result["turns"] == 3


def test_a_history_within_the_budget_stays(run) -> None:
    outcome = run(in_order(bash("true", total_tokens=360), DONE), GYRE_COMPACT_TOKENS="360")
    assert [message["role"] for message in outcome.model.requests[1]["messages"]][-1] == "tool"


def test_all_agents_share_one_limit_of_model_calls(run) -> None:
    def script(request: dict[str, Any]) -> Answer:
        if request["messages"][0]["content"] == program.HELPER_SYSTEM:
            return bash("true")
        return delegate("work")

    outcome = run(script, GYRE_TURN_LIMIT="5")
    assert outcome.status == 0
    assert len(outcome.model.requests) == 5
    assert outcome.result["turn_limit"] is True


def test_finishing_with_the_last_allowed_call_is_not_hitting_the_limit(run) -> None:
    outcome = run(in_order(bash("true"), DONE), GYRE_TURN_LIMIT="2")
    assert outcome.result["turn_limit"] is False


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("bash", "{broken"), ("bash", '{"cmd": "ls"}'), ("bash", '{"command": 3}'), ("python", "{}"), ("bash", "[1]")],
)
def test_a_call_that_cannot_be_understood_gets_an_error_and_is_counted(run, name: str, arguments: str) -> None:
    outcome = run(in_order(Answer(calls=((name, arguments),)), DONE))
    assert last_message(outcome.model.requests[1])["content"] == program.BAD_CALL
    assert outcome.result["malformed_calls"] == 1


def test_a_call_that_arrives_as_text_is_counted_and_the_agent_may_try_again(run) -> None:
    outcome = run(in_order(Answer("<tool_call>\n{oops\n</tool_call>"), DONE))
    assert last_message(outcome.model.requests[1]) == {"role": "user", "content": program.BAD_CALL}
    assert outcome.result["malformed_calls"] == 1


def test_a_reply_cut_by_its_length_ends_the_agent_and_is_counted(run) -> None:
    outcome = run(in_order(Answer("and then and then", finish_reason="length")))
    assert outcome.result["malformed_calls"] == 1
    assert outcome.status == 0


def test_a_failed_request_is_sent_again_and_says_so(run) -> None:
    outcome = run(in_order(Answer(status=503), DONE))
    assert outcome.status == 0
    assert [headers["x-stainless-retry-count"] for headers in outcome.model.headers] == ["0", "1"]
    assert outcome.model.requests[0] == outcome.model.requests[1]
    assert outcome.result["turns"] == 1


def test_a_model_that_stays_away_makes_the_program_fail_with_the_reason(run) -> None:
    outcome = run(lambda request: Answer(status=409), GYRE_MAX_RETRIES="0")
    assert outcome.status == 1
    assert "409" in outcome.result["error"] or "Conflict" in outcome.result["error"]


def test_the_program_runs_as_a_module(tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text("Do nothing.")
    with scripted_model(in_order(DONE)) as model:
        env = {
            "PATH": "/usr/bin:/bin",
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "key",
            "GYRE_INSTRUCTION": str(tmp_path / "task.md"),
            "GYRE_LOGS": str(tmp_path),
        }
        command = [sys.executable, "-m", "agents.harness.reference"]
        subprocess.run(command, env=env, check=True, cwd=Path(__file__).parents[2])
    assert json.loads((tmp_path / "result.json").read_text())["turns"] == 1


def test_importing_the_program_starts_no_thread_and_needs_no_django() -> None:
    check = (
        "import sys, threading, agents.harness.reference.program\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        "assert 'django' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True, cwd=Path(__file__).parents[2])
