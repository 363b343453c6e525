"""Roles, conversations and branches of the reference harness's traffic (docs/algorithms.md §2.3, §4)."""

import threading

import openai
import pytest

from agents.models import Call, Execution
from agents.proxy.profiles import generic
from agents.web.divergence import divergences
from tests.proxy.backstage import Backstage, full_input, sampled, tool_text

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}
DELEGATE = {
    "type": "function",
    "function": {
        "name": "delegate",
        "description": "Give a job to a helper.",
        "parameters": {"type": "object", "properties": {"job": {"type": "string"}}, "required": ["job"]},
    },
}
MAIN = {"role": "system", "content": "You are an agent. Do the task with tools."}
HELPER = {"role": "system", "content": "You are a helper. Do the job with tools."}
SUMMARIZE = {"role": "user", "content": "Summarize what is left."}


class Agent:
    """One conversation of a harness that keeps its history as the reference one does."""

    def __init__(self, base: str, system: dict, task: str, tools: list[dict]) -> None:
        self.base = base
        self.messages = [system, {"role": "user", "content": task}]
        self.tools = tools

    def turn(self) -> openai.types.chat.ChatCompletionMessage:
        with openai.OpenAI(base_url=f"{self.base}/v1", api_key="none", max_retries=0) as client:
            message = client.chat.completions.create(model="policy", messages=self.messages, tools=self.tools)
        reply = message.choices[0].message
        self.messages.append(reply.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        return reply

    def answer(self, text: str) -> None:
        [call] = self.messages[-1]["tool_calls"]
        self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})


def _rows(stage: Backstage, execution: Execution) -> list[tuple[str, str, str]]:
    return [(call.role, call.conversation, call.branch_reason) for call in stage.calls(execution)]


def test_a_sub_agent_and_a_compaction_are_true_branches(stage: Backstage) -> None:
    run = stage.run()
    bash, delegate = tool_text("bash", command="ls"), tool_text("delegate", job="read the file")
    engine = stage.engine(run, delegate, bash, "done", bash, "the file", "done")
    execution, base = stage.execution(run)

    main = Agent(base, MAIN, "write the file", [BASH, DELEGATE])
    main.turn()
    helper = Agent(base, HELPER, "read the file", [BASH])
    helper.turn()
    helper.answer("apple")
    helper.turn()
    main.answer("done")
    main.turn()
    main.answer("")
    main.messages.append(SUMMARIZE)
    summary = main.turn().content
    again = Agent(base, MAIN, f"Continue. {summary}", [BASH, DELEGATE])
    again.turn()

    assert _rows(stage, execution) == [
        ("main", "main", ""),
        ("sub-agent", "sub-agent-1", ""),
        ("sub-agent", "sub-agent-1", ""),
        ("main", "main", ""),
        ("main-summary", "main", ""),
        ("main", "main", "compaction"),
    ]
    calls = stage.calls(execution)
    assert not any(call.false_fork for call in calls)
    assert [call.parent_number for call in calls] == [None, None, 1, 0, 3, None]
    assert engine.requests[4]["input_ids"] == full_input(calls[4])


def test_two_sub_agents_at_once_have_conversations_of_their_own_and_compact_into_them(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, "read")
    execution, base = stage.execution(run)
    engine.say("write")
    Agent(base, MAIN, "write the file", [BASH, DELEGATE]).turn()
    helpers = [Agent(base, HELPER, f"read the file {n}", [BASH]) for n in "12"]
    threads = [threading.Thread(target=helper.turn) for helper in helpers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for helper, left in zip(helpers, ("the file", "the word"), strict=True):
        engine.say(left)
        helper.messages.append(SUMMARIZE)
        helper.turn()
    for left in ("the word", "the file"):
        engine.say("done")
        Agent(base, HELPER, f"Continue. {left}", [BASH]).turn()

    rows = {call.number: call for call in stage.calls(execution)}
    first, second = rows[3].conversation, rows[4].conversation
    assert {first, second} == {"sub-agent-1", "sub-agent-2"}
    assert [rows[n].role for n in (3, 4)] == ["sub-agent-summary"] * 2
    assert [rows[n].conversation for n in (5, 6)] == [second, first]
    assert [rows[n].branch_reason for n in (5, 6)] == ["compaction"] * 2
    assert not Call.objects.filter(execution=execution, false_fork=True).exists()


def test_an_assistant_turn_that_the_harness_edited_is_context_after_the_same_prompt(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "read the file", "done")
    execution, base = stage.execution(run)
    agent = Agent(base, MAIN, "write the file", [BASH])
    agent.turn()
    agent.messages[-1] = {"role": "assistant", "content": "read the word"}
    agent.messages.append({"role": "user", "content": "on"})
    agent.turn()
    one, two = stage.calls(execution)
    assert (two.parent_number, two.prefix_tokens) == (one.number, one.input_tokens)
    assert (two.branch_reason, two.false_fork) == ("edited-reply", False)
    edited = sampled("read the word")
    assert full_input(two)[one.input_tokens :][: len(edited)] == edited


def test_an_answer_that_the_harness_dropped_leaves_the_prompt_without_its_opening(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "", "done")
    execution, base = stage.execution(run)
    agent = Agent(base, MAIN, "write the file", [BASH])
    agent.turn()
    agent.messages[-1] = {"role": "user", "content": "on"}
    agent.turn()
    one, two = stage.calls(execution)
    assert (two.parent_number, two.branch_reason, two.false_fork) == (one.number, "dropped-answer", False)
    assert two.prefix_tokens < one.input_tokens


def test_a_changed_beginning_before_a_kept_turn_is_a_false_fork(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "read the file", "done")
    execution, base = stage.execution(run)
    agent = Agent(base, MAIN, "write the file", [BASH])
    agent.turn()
    agent.messages[1] = {"role": "user", "content": "write the word"}
    agent.messages.append({"role": "user", "content": "on"})
    agent.turn()
    two = stage.calls(execution)[1]
    assert (two.branch_reason, two.false_fork) == ("unexplained", True)
    [found] = divergences([two])
    assert found.of_call == 0
    assert two.departure["recorded_text"].lstrip().startswith("file")
    assert two.departure["given_text"].lstrip().startswith("word")
    assert found.expected != found.found


def test_an_unknown_harness_gets_its_roles_from_the_shape_of_its_traffic(stage: Backstage) -> None:
    run = stage.run()
    run.config["harness"] = "mini-swe-agent"
    run.save()
    stage.engine(run, "read", "done", "read", "done")
    execution, base = stage.execution(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agents.proxy.registry.profile", lambda _: generic.PROFILE)
        main = Agent(base, MAIN, "write the file", [BASH, DELEGATE])
        main.turn()
        Agent(base, HELPER, "read the file", [BASH]).turn()
        main.messages.append({"role": "user", "content": "on"})
        main.turn()
        Agent(base, MAIN, "so far: read", [BASH, DELEGATE]).turn()
    assert [role for role, _, _ in _rows(stage, execution)] == ["main", "sub-agent", "main", "main"]


def test_a_call_that_was_taken_for_main_is_corrected_when_the_main_agent_speaks(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "a title", "done")
    execution, base = stage.execution(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agents.proxy.registry.profile", lambda _: generic.PROFILE)
        Agent(base, {"role": "system", "content": "You name things."}, "write the file", []).turn()
        assert [role for role, _, _ in _rows(stage, execution)] == ["main"]
        Agent(base, MAIN, "write the file", [BASH, DELEGATE]).turn()
    assert [role for role, _, _ in _rows(stage, execution)] == ["auxiliary", "main"]
