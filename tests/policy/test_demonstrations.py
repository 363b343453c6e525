"""Demonstrations: the agent they show, and that their tokens are those of the same conversation at run time."""

from __future__ import annotations

import json
from itertools import islice
from random import Random
from typing import Any

import pytest

from agents.harness.reference import program
from agents.proxy.rendering import BUNDLED_POLICY, rendering
from agents.tasksets.kinds import KINDS, Bash, Summary, make_task
from agents.tasksets.quickstart import demonstration_tasks
from tests.policy.model_server import Answer, scripted_model
from trainers.policy.demonstrations import DONE, NOTHING_LEFT, Dialogue, demonstrate


def _calls(dialogue: Dialogue) -> list[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """(messages of the request, reply) of every model call in a dialogue."""
    replies = [at for at, message in enumerate(dialogue.messages) if message["role"] == "assistant"]
    return [(dialogue.messages[:at], dialogue.messages[at]) for at in replies]


def test_prompts_of_the_proxy_are_prefixes_of_the_demonstration() -> None:
    proxy = rendering(BUNDLED_POLICY)
    rng = Random(1)
    for task in islice(demonstration_tasks(rng, dict.fromkeys(KINDS, 1)), 160):
        for dialogue in demonstrate(task, rng, 0.6):
            shown = proxy.conversation(dialogue.messages, dialogue.tools)
            sampled = [token for token, flag in zip(shown.ids, shown.sampled, strict=True) if flag]
            replies: list[int] = []
            for messages, reply in _calls(dialogue):
                prompt = proxy.prompt(messages, dialogue.tools)
                assert shown.ids[: len(prompt)] == prompt
                replies += proxy.assistant(reply)
            assert sampled == replies


def test_the_official_chat_template_gives_the_same_first_prompt() -> None:
    from transformers import AutoTokenizer

    tokenizer, proxy = AutoTokenizer.from_pretrained(BUNDLED_POLICY), rendering(BUNDLED_POLICY)
    for kind in KINDS:
        for dialogue in demonstrate(make_task(kind, Random(2)), Random(2), 0.0):
            opening = dialogue.messages[:2]
            official = tokenizer.apply_chat_template(
                opening, tools=dialogue.tools, add_generation_prompt=True, return_dict=False
            )
            assert proxy.prompt(opening, dialogue.tools) == official


def test_a_patient_agent_does_every_step() -> None:
    task = make_task("write3", Random(3))
    [dialogue] = demonstrate(task, Random(0), 0.0)
    replies = [reply for _, reply in _calls(dialogue)]
    done = [Bash(call["function"]["arguments"]["command"]) for r in replies for call in r.get("tool_calls", ())]
    assert done == list(task.steps)
    assert replies[-1]["content"] == DONE


def test_a_hasty_agent_stops_after_its_first_call() -> None:
    [dialogue] = demonstrate(make_task("write3", Random(3)), Random(0), 1.0)
    assert [reply["content"] for _, reply in _calls(dialogue)] == ["", DONE]


def test_some_summaries_of_a_hasty_agent_say_that_nothing_is_left() -> None:
    task = make_task("compaction", Random(4))
    summaries = [step.text for step in task.steps if isinstance(step, Summary)]
    last_messages = set()
    for seed in range(60):
        shown = list(demonstrate(task, Random(seed), 0.5))
        if len(shown) == 2:
            last_messages.add(shown[0].messages[-1]["content"])
            assert shown[1].messages[1]["content"] == program.CONTINUATION + shown[0].messages[-1]["content"]
    assert last_messages == {NOTHING_LEFT, *summaries}


@pytest.mark.parametrize("kind", KINDS)
def test_the_harness_holds_the_conversations_that_are_demonstrated(kind: str, tmp_path, monkeypatch) -> None:
    """The scripted model says what the demonstration says; every request must be the demonstrated one."""
    task = make_task(kind, Random(5))
    shown = list(demonstrate(task, Random(0), 0.0))
    known = {json.dumps(_plain(messages)): reply for d in shown for messages, reply in _calls(d)}
    compact_after = [r for d in shown for m, r in _calls(d) if _asks_for_summary(d, r)]
    budget = program.Settings("", "").compact_tokens

    def script(request: dict[str, Any]) -> Answer:
        reply = known.pop(json.dumps(_plain(request["messages"])))
        calls = [call["function"] for call in reply.get("tool_calls", ())]
        named = tuple((call["name"], json.dumps(call["arguments"])) for call in calls)
        return Answer(reply["content"], named, total_tokens=budget + (reply in compact_after))

    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for name, text in task.files.items():
        (work / name).write_text(text)
    (tmp_path / "task.md").write_text(task.text)
    with scripted_model(script) as model:
        files = {"GYRE_INSTRUCTION": str(tmp_path / "task.md"), "GYRE_LOGS": str(tmp_path / "logs")}
        assert program.main({"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "key", **files}) == 0
    assert known == {}
    assert all((work / check.file).read_text().strip() == check.text for check in task.checks if check.text)


def _asks_for_summary(dialogue: Dialogue, reply: dict[str, Any]) -> bool:
    at = dialogue.messages.index(reply)
    return any(message["content"] == program.SUMMARY_QUESTION for message in dialogue.messages[at : at + 3])


def _plain(messages: list[dict[str, Any]]) -> list[Any]:
    """Messages without what the wire adds: call ids, and arguments as text."""
    plain: list[Any] = []
    for message in messages:
        calls = [call["function"] for call in message.get("tool_calls", ())]
        arguments = [c["arguments"] if isinstance(c["arguments"], dict) else json.loads(c["arguments"]) for c in calls]
        plain.append([message["role"], message["content"] or "", [c["name"] for c in calls], arguments])
    return plain
